-- The history of winners. What changed before is not known, so it begins with the present winners, of no launch:
-- they are the state that later changes lead on from, and their date says since when the history is whole.

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
    evidence TEXT CHECK (evidence IN ('decided', 'tie', 'between', 'barrier')),
    decided TEXT NOT NULL CHECK (decided GLOB '????-??-??T??:??:??Z'),
    UNIQUE (system, mpi_library, layout, collective, bytes, run),
    CHECK ((variant IS NULL) = (ratio IS NULL) AND (variant IS NULL) = (evidence IS NULL))
);

INSERT INTO decision
SELECT
    NULL, NULL, system, mpi_library, layout, collective, bytes, variant, ratio, evidence,
    strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
FROM winner;
