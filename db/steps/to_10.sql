-- The map has another kind of evidence, which older libraries must not see: the table gets another name.
DROP TRIGGER verification_erases_from_map;

DROP TRIGGER verification_of_map_is_kept;

CREATE TABLE point (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    nodes INTEGER NOT NULL CHECK (typeof(nodes) = 'integer' AND nodes > 0),
    ranks_per_node INTEGER NOT NULL CHECK (typeof(ranks_per_node) = 'integer' AND ranks_per_node > 0),
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes > 0),
    variant INTEGER NOT NULL REFERENCES variant (id),
    -- Time of native / time of the variant, as expected, and the least that is likely.
    ratio REAL NOT NULL CHECK (typeof(ratio) = 'real'),
    ratio_low REAL NOT NULL CHECK (typeof(ratio_low) = 'real' AND ratio_low > 0),
    -- measured: on this very layout; predicted: from those around it; extrapolated: from far smaller ones.
    evidence TEXT NOT NULL CHECK (evidence IN ('measured', 'predicted', 'extrapolated')),
    -- JSON array of the names of the layouts that it follows from.
    sources TEXT NOT NULL CHECK (sources GLOB '[[]*]'),
    -- A passing verification of the variant; NULL for native, which needs none.
    verification INTEGER REFERENCES verification (id),
    UNIQUE (system, mpi_library, nodes, ranks_per_node, collective, bytes)
);

INSERT INTO point SELECT * FROM map;

DROP TABLE map;

-- As for winners.
CREATE TRIGGER map_is_verified BEFORE INSERT ON point
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

CREATE TRIGGER verification_erases_from_map AFTER INSERT ON verification
WHEN NEW.passed = 0
BEGIN
    DELETE FROM point
    WHERE variant = NEW.variant AND mpi_library = (SELECT mpi_library FROM run WHERE id = NEW.run);
END;

CREATE TRIGGER verification_of_map_is_kept BEFORE DELETE ON verification
WHEN EXISTS (SELECT 1 FROM point WHERE verification = OLD.id)
BEGIN
    SELECT RAISE(ABORT, 'a point of the map rests on this verification');
END;

-- What libraries of before schema 10 read: they would serve what is extrapolated without a trial.
CREATE VIEW map AS SELECT * FROM point WHERE evidence <> 'extrapolated';

-- Schema 9 had these from its second day on.
CREATE TABLE IF NOT EXISTS tree (
    id INTEGER PRIMARY KEY,
    prefix TEXT NOT NULL UNIQUE CHECK (typeof(prefix) = 'text' AND prefix <> ''),
    -- Of Collforge, of the modules.
    version TEXT NOT NULL CHECK (typeof(version) = 'text'),
    module_version TEXT NOT NULL CHECK (typeof(module_version) = 'text'),
    -- Names of the MPI libraries, with commas.
    libraries TEXT NOT NULL CHECK (typeof(libraries) = 'text'),
    -- SHA-256 of the winners.
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    installed TEXT NOT NULL CHECK (typeof(installed) = 'text')
);

CREATE TABLE IF NOT EXISTS job_use (
    id INTEGER PRIMARY KEY,
    month TEXT NOT NULL UNIQUE CHECK (month GLOB '????-??'),
    jobs INTEGER NOT NULL CHECK (jobs > 0),
    users INTEGER NOT NULL CHECK (users > 0),
    -- Blocking calls where there is a winner, and those of them that a variant served.
    calls INTEGER NOT NULL CHECK (calls >= 0),
    served INTEGER NOT NULL CHECK (served >= 0),
    -- Seconds on all ranks, estimated.
    saved REAL NOT NULL CHECK (typeof(saved) = 'real')
);
