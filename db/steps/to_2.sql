-- How a winner was decided, undecided sizes, and the start error of each sample. Statements are separated by blank
-- lines.
--
-- Version 1 stored native where nothing was decided. Native rows with fewer launches than a decision needs are
-- dropped, except at the largest size of a collective, where such a row limits the winners below it. `collforge tune`
-- rebuilds all winners from the measurements.

ALTER TABLE measurement ADD COLUMN start_errors TEXT NOT NULL DEFAULT '[]';

ALTER TABLE winner ADD COLUMN evidence TEXT NOT NULL DEFAULT 'decided';

CREATE TEMP TABLE bound AS SELECT * FROM winner
WHERE verification IS NULL AND launches < 3
AND (system, mpi_library, layout, collective, bytes) IN (
    SELECT system, mpi_library, layout, collective, max(bytes) FROM winner
    GROUP BY system, mpi_library, layout, collective
);

DELETE FROM winner WHERE verification IS NULL AND launches < 3;

UPDATE bound SET evidence = 'barrier';

INSERT INTO winner SELECT * FROM bound;

DROP TABLE bound;

DROP VIEW winner_view;

CREATE TABLE undecided (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    layout INTEGER NOT NULL REFERENCES layout (id),
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    launches INTEGER NOT NULL CHECK (typeof(launches) = 'integer' AND launches >= 0),
    -- Best candidate, and why it was not accepted.
    reason TEXT NOT NULL CHECK (typeof(reason) = 'text'),
    UNIQUE (system, mpi_library, layout, collective, bytes)
);

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
    winner.evidence AS evidence
FROM winner
JOIN system ON system.id = winner.system
JOIN mpi_library ON mpi_library.id = winner.mpi_library
JOIN layout ON layout.id = winner.layout
JOIN variant ON variant.id = winner.variant;
