-- The history of winners. What changed before is not known, so it begins with the present winners, of no launch:
-- they are the state that later changes lead on from, and their date says since when the history is whole.

CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    -- The newest launch at that time. NULL: the winner was there when the history began (steps/to_7.sql).
    run INTEGER REFERENCES run (id) ON DELETE CASCADE,
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id) ON DELETE CASCADE,
    layout INTEGER NOT NULL REFERENCES layout (id) ON DELETE CASCADE,
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    -- The winner before, with its ratio and evidence of then; NULL: there was none.
    old_variant INTEGER REFERENCES variant (id),
    old_ratio REAL CHECK (typeof(old_ratio) IN ('real', 'null')),
    old_evidence TEXT CHECK (old_evidence IN ('decided', 'tie', 'between', 'barrier')),
    -- The winner after; NULL: there is none.
    new_variant INTEGER REFERENCES variant (id),
    new_ratio REAL CHECK (typeof(new_ratio) IN ('real', 'null')),
    new_evidence TEXT CHECK (new_evidence IN ('decided', 'tie', 'between', 'barrier')),
    decided TEXT NOT NULL CHECK (decided GLOB '????-??-??T??:??:??Z'),
    UNIQUE (run, system, mpi_library, layout, collective, bytes),
    CHECK ((old_variant IS NULL) = (old_ratio IS NULL) AND (old_variant IS NULL) = (old_evidence IS NULL)),
    CHECK ((new_variant IS NULL) = (new_ratio IS NULL) AND (new_variant IS NULL) = (new_evidence IS NULL)),
    CHECK (run IS NOT NULL OR old_variant IS new_variant)
);

INSERT INTO decision (
    system, mpi_library, layout, collective, bytes, old_variant, old_ratio, old_evidence,
    new_variant, new_ratio, new_evidence, decided
)
SELECT
    system, mpi_library, layout, collective, bytes, variant, ratio, evidence, variant, ratio, evidence,
    strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
FROM winner;
