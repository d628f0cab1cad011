-- Production jobs, nights and applications; and what a launch cost.

ALTER TABLE run ADD COLUMN scheduler_job TEXT NOT NULL DEFAULT '' CHECK (typeof(scheduler_job) = 'text');

ALTER TABLE run ADD COLUMN seconds INTEGER NOT NULL DEFAULT 0 CHECK (seconds >= 0);

-- Since when launches count for a problem: before, the machine was another one (`collforge tune --since`). It holds from
-- the first such launch on. Launches of before stay on record.
CREATE TABLE epoch (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id) ON DELETE CASCADE,
    layout INTEGER NOT NULL REFERENCES layout (id) ON DELETE CASCADE,
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    begins TEXT NOT NULL CHECK (begins GLOB '????-??-??T??:??:??Z'),
    UNIQUE (system, mpi_library, layout, collective, bytes, begins)
);

-- The fastest of the MPI library's own algorithms, each by itself (`collforge bench --native-algorithms`).
CREATE TABLE native_best (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id) ON DELETE CASCADE,
    layout INTEGER NOT NULL REFERENCES layout (id) ON DELETE CASCADE,
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    algorithm TEXT NOT NULL CHECK (typeof(algorithm) = 'text' AND algorithm <> ''),
    -- Of a call: the median over launches.
    seconds REAL NOT NULL CHECK (seconds > 0),
    UNIQUE (system, mpi_library, layout, collective, bytes)
);

-- A file of COLLFORGE_LEARN, taken in once: a production job, and what it saw.
CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    -- SHA-256 of the file.
    digest TEXT NOT NULL UNIQUE CHECK (typeof(digest) = 'text' AND length(digest) = 64),
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    -- Whose file it was. '': root's, or that of the database's owner, who is believed alone.
    owner TEXT NOT NULL CHECK (typeof(owner) = 'text'),
    ended TEXT NOT NULL CHECK (ended GLOB '????-??-??T??:??:??Z'),
    tool_version TEXT NOT NULL CHECK (typeof(tool_version) = 'text')
);

-- How a variant did beside native in a job: a trial or a re-test of the guard (runtime/src/serve/guard.h).
CREATE TABLE verdict (
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    layout INTEGER NOT NULL REFERENCES layout (id),
    variant INTEGER NOT NULL REFERENCES variant (id),
    -- The least of the quarter octave of sizes.
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes > 0),
    -- Seconds of a call, on the slowest rank.
    native REAL NOT NULL CHECK (native > 0),
    seconds REAL NOT NULL CHECK (seconds > 0),
    pairs INTEGER NOT NULL CHECK (typeof(pairs) = 'integer' AND pairs > 0),
    -- 1: it served calls before, and was tried again.
    again INTEGER NOT NULL CHECK (again IN (0, 1)),
    kept INTEGER NOT NULL CHECK (kept IN (0, 1)),
    UNIQUE (job, layout, variant, bytes, again)
);

CREATE INDEX verdict_variant ON verdict (variant);

-- What enough jobs agree on (tuner/decide/learning.py). It follows from the verdicts. The runtime reads it where the
-- map serves a layout: what is confirmed needs no trial, what is refuted is native.
CREATE TABLE learnt (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id) ON DELETE CASCADE,
    layout INTEGER NOT NULL REFERENCES layout (id) ON DELETE CASCADE,
    variant INTEGER NOT NULL REFERENCES variant (id) ON DELETE CASCADE,
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes > 0),
    confirmed INTEGER NOT NULL CHECK (confirmed IN (0, 1)),
    -- Time of native / time of the variant: the median of the jobs that say so.
    ratio REAL NOT NULL CHECK (ratio > 0),
    jobs INTEGER NOT NULL CHECK (typeof(jobs) = 'integer' AND jobs > 0),
    owners INTEGER NOT NULL CHECK (typeof(owners) = 'integer' AND owners > 0),
    first TEXT NOT NULL CHECK (first GLOB '????-??-??T??:??:??Z'),
    last TEXT NOT NULL CHECK (last GLOB '????-??-??T??:??:??Z'),
    UNIQUE (system, mpi_library, layout, variant, bytes)
);

-- What a regression check found in a night: a value of ReFrame's, as its handler `httpjson` sends it.
CREATE TABLE finding (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    -- ReFrame's names of the partition and the environment.
    partition TEXT NOT NULL CHECK (typeof(partition) = 'text'),
    environment TEXT NOT NULL CHECK (typeof(environment) = 'text'),
    found TEXT NOT NULL CHECK (found GLOB '????-??-??T??:??:??Z'),
    -- The scheduler's name of the job; '' where not known.
    scheduler_job TEXT NOT NULL CHECK (typeof(scheduler_job) = 'text'),
    -- The display name of the check, and the case string if it is a winner's.
    test TEXT NOT NULL CHECK (typeof(test) = 'text' AND test <> ''),
    problem TEXT NOT NULL CHECK (typeof(problem) = 'text'),
    variable TEXT NOT NULL CHECK (typeof(variable) = 'text' AND variable <> ''),
    value REAL NOT NULL CHECK (typeof(value) = 'real'),
    unit TEXT NOT NULL CHECK (typeof(unit) = 'text'),
    -- The value that was expected, and the ends of what is accepted; NULL: none.
    reference REAL CHECK (typeof(reference) IN ('real', 'null')),
    low REAL CHECK (typeof(low) IN ('real', 'null')),
    high REAL CHECK (typeof(high) IN ('real', 'null')),
    passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
    UNIQUE (system, partition, environment, found, test, variable)
);

CREATE INDEX finding_failed ON finding (system, passed, found);

-- What an application calls: a file of COLLFORGE_PROFILE.
CREATE TABLE profile (
    id INTEGER PRIMARY KEY,
    system INTEGER NOT NULL REFERENCES system (id) ON DELETE CASCADE,
    -- Of the application, as who stored it calls it.
    name TEXT NOT NULL CHECK (typeof(name) = 'text' AND name <> ''),
    stored TEXT NOT NULL CHECK (stored GLOB '????-??-??T??:??:??Z'),
    -- The file, a CSV (tuner/decide/profile.py).
    content TEXT NOT NULL CHECK (typeof(content) = 'text' AND content <> ''),
    UNIQUE (system, name)
);

-- Trees of `collforge install` with winners of this database, by their folder.
CREATE TABLE tree (
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

-- What the jobs of a month used (`collforge db usage`), on rank 0 of each.
CREATE TABLE job_use (
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
