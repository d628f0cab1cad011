-- Other words for two kinds of evidence (between, barrier), whose tables are made anew, because a CHECK names them.
-- The time of a call by the winner is known from the next decision on.
DROP VIEW winner_view;

CREATE TABLE old_winner AS SELECT * FROM winner;

DROP TABLE winner;

CREATE TABLE winner (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    layout INTEGER NOT NULL REFERENCES layout (id),
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    variant INTEGER NOT NULL REFERENCES variant (id),
    -- Time of native / time of the variant, and its 95 % interval across launches.
    ratio REAL NOT NULL CHECK (typeof(ratio) = 'real'),
    ratio_low REAL NOT NULL CHECK (typeof(ratio_low) = 'real' AND ratio_low > 0),
    ratio_high REAL NOT NULL CHECK (typeof(ratio_high) = 'real'),
    launches INTEGER NOT NULL CHECK (typeof(launches) = 'integer' AND launches >= 0),
    -- A passing verification of the variant; NULL for native, which needs none.
    verification INTEGER REFERENCES verification (id),
    decided TEXT NOT NULL CHECK (decided GLOB '????-??-??T??:??:??Z'),
    -- Why this row is stored. decided: the fastest beyond doubt. tie: native, because the best variant is not faster
    -- by the margin. At a size that is undecided: neighbour: the winner of a neighbouring size, which was not slower
    -- than native here; fallback: native, because the winners of the neighbouring sizes were slower here or, at the
    -- largest size, were not measured.
    evidence TEXT NOT NULL DEFAULT 'decided' CHECK (
        evidence = 'decided' OR (evidence IN ('tie', 'fallback')) = (verification IS NULL)
        AND evidence IN ('tie', 'fallback', 'neighbour')
    ),
    -- Of a call by the variant, by the median of its launches; NULL: decided before schema 8, or not measured.
    seconds REAL CHECK (seconds > 0),
    UNIQUE (system, mpi_library, layout, collective, bytes),
    CHECK (ratio_low <= ratio AND ratio <= ratio_high)
);

INSERT INTO winner
SELECT
    id,
    system,
    mpi_library,
    layout,
    collective,
    bytes,
    variant,
    ratio,
    ratio_low,
    ratio_high,
    launches,
    verification,
    decided,
    CASE evidence
        WHEN 'between' THEN 'neighbour'
        WHEN 'barrier' THEN 'fallback'
        ELSE evidence
    END,
    NULL
FROM old_winner;

DROP TABLE old_winner;

CREATE TABLE old_decision AS SELECT * FROM decision;

DROP TABLE decision;

CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    -- The newest launch at that time. NULL: the history began with this winner (steps/to_7.sql), or its launch and
    -- all before it are removed.
    run INTEGER REFERENCES run (id),
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id) ON DELETE CASCADE,
    layout INTEGER NOT NULL REFERENCES layout (id) ON DELETE CASCADE,
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    -- The winner from then on, with its ratio and evidence of then; NULL: there is none.
    variant INTEGER REFERENCES variant (id),
    ratio REAL CHECK (typeof(ratio) IN ('real', 'null')),
    evidence TEXT CHECK (evidence IN ('decided', 'tie', 'neighbour', 'fallback')),
    decided TEXT NOT NULL CHECK (decided GLOB '????-??-??T??:??:??Z'),
    UNIQUE (system, mpi_library, layout, collective, bytes, run),
    CHECK ((variant IS NULL) = (ratio IS NULL) AND (variant IS NULL) = (evidence IS NULL))
);

INSERT INTO decision
SELECT
    id,
    run,
    system,
    mpi_library,
    layout,
    collective,
    bytes,
    variant,
    ratio,
    CASE evidence
        WHEN 'between' THEN 'neighbour'
        WHEN 'barrier' THEN 'fallback'
        ELSE evidence
    END,
    decided
FROM old_decision;

DROP TABLE old_decision;

CREATE TRIGGER winner_is_verified BEFORE INSERT ON winner
WHEN (SELECT family FROM variant WHERE id = NEW.variant) <> 'native'
BEGIN
    SELECT RAISE(ABORT, 'unverified winner')
    WHERE NOT EXISTS (
        SELECT 1 FROM verification JOIN run ON run.id = verification.run
        WHERE verification.id = NEW.verification AND verification.variant = NEW.variant
            AND verification.passed = 1 AND run.mpi_library = NEW.mpi_library
    ) OR EXISTS (
        SELECT 1 FROM verification JOIN run ON run.id = verification.run
        WHERE verification.variant = NEW.variant
            AND verification.passed = 0 AND run.mpi_library = NEW.mpi_library
    );
END;

CREATE TRIGGER winner_is_of_its_collective BEFORE INSERT ON winner
WHEN (SELECT collective FROM variant WHERE id = NEW.variant) <> NEW.collective
BEGIN
    SELECT RAISE(ABORT, 'winner of another collective');
END;

CREATE TRIGGER winner_is_replaced_not_changed BEFORE UPDATE ON winner
BEGIN
    SELECT RAISE(ABORT, 'a winner is replaced, never changed');
END;

CREATE VIEW winner_view AS
SELECT
    system.name AS system,
    system.host_pattern AS host_pattern,
    mpi_library.name AS mpi,
    mpi_library.version AS mpi_version,
    layout.name AS layout,
    winner.collective AS collective,
    winner.bytes AS bytes,
    variant.family AS family,
    variant.parameters AS parameters,
    variant.fingerprint AS fingerprint,
    winner.ratio AS ratio,
    winner.ratio_low AS ratio_low,
    winner.ratio_high AS ratio_high,
    winner.launches AS launches,
    winner.decided AS decided,
    winner.evidence AS evidence,
    winner.seconds AS seconds
FROM winner
JOIN system ON system.id = winner.system
JOIN mpi_library ON mpi_library.id = winner.mpi_library
JOIN layout ON layout.id = winner.layout
JOIN variant ON variant.id = winner.variant;
