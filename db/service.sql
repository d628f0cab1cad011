-- What `collforge serve` keeps beside the tables of schema.sql, in the same file. Statements are separated by blank
-- lines. Every name begins with service_, so that check, merge and prune leave these tables alone (structure.py).
-- Rows name systems and places by their names, not by ids, because joined and pruned files have other ids.

CREATE TABLE IF NOT EXISTS service_token (
    name TEXT PRIMARY KEY CHECK (typeof(name) = 'text' AND name <> ''),
    -- SHA-256 of the token, in hexadecimal digits; the token itself is stored nowhere.
    digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64),
    role TEXT NOT NULL CHECK (role IN ('read', 'push', 'admin')),
    -- JSON array of the systems that it is for; ["*"]: all.
    systems TEXT NOT NULL CHECK (systems GLOB '[[]*]'),
    created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??Z'),
    revoked TEXT CHECK (revoked GLOB '????-??-??T??:??:??Z'),
    -- To the hour.
    used TEXT CHECK (used GLOB '????-??-??T??:??:??Z')
) WITHOUT ROWID;

-- Everything that writes leaves a row.
CREATE TABLE IF NOT EXISTS service_audit (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL CHECK (at GLOB '????-??-??T??:??:??Z'),
    -- Of whom; '': somebody with the right to write the file.
    token TEXT NOT NULL CHECK (typeof(token) = 'text'),
    action TEXT NOT NULL CHECK (typeof(action) = 'text' AND action <> ''),
    system TEXT NOT NULL CHECK (typeof(system) = 'text'),
    detail TEXT NOT NULL CHECK (typeof(detail) = 'text')
);

-- Places whose winners must be decided anew, because launches came in. '': layout of a map.
CREATE TABLE IF NOT EXISTS service_pending (
    system TEXT NOT NULL,
    mpi TEXT NOT NULL,
    mpi_version TEXT NOT NULL,
    layout TEXT NOT NULL,
    -- How often it failed since the last launch, and why.
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (system, mpi, mpi_version, layout)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS service_agent (
    name TEXT NOT NULL CHECK (typeof(name) = 'text' AND name <> ''),
    system TEXT NOT NULL CHECK (typeof(system) = 'text' AND system <> ''),
    seen TEXT NOT NULL CHECK (seen GLOB '????-??-??T??:??:??Z'),
    -- What it does, or did last.
    doing TEXT NOT NULL DEFAULT '' CHECK (typeof(doing) = 'text'),
    PRIMARY KEY (name, system)
) WITHOUT ROWID;

-- The queue of what to measure.
CREATE TABLE IF NOT EXISTS service_task (
    id INTEGER PRIMARY KEY,
    system TEXT NOT NULL CHECK (typeof(system) = 'text' AND system <> ''),
    mpi TEXT NOT NULL CHECK (typeof(mpi) = 'text' AND mpi <> ''),
    mpi_version TEXT NOT NULL CHECK (typeof(mpi_version) = 'text' AND mpi_version <> ''),
    layout TEXT NOT NULL CHECK (typeof(layout) = 'text' AND layout <> ''),
    -- JSON array of [collective, bytes]; []: all of the layout.
    problems TEXT NOT NULL CHECK (problems GLOB '[[]*]'),
    -- The kind of a proposal (tuner/site/proposals.py), or 'new' (service/queue.py); and the same in words.
    reason TEXT NOT NULL CHECK (typeof(reason) = 'text' AND reason <> ''),
    why TEXT NOT NULL CHECK (typeof(why) = 'text'),
    -- Since when launches count for these problems; '': all do.
    since TEXT NOT NULL CHECK (typeof(since) = 'text'),
    -- Seconds of the stored profiles in such calls.
    gain REAL NOT NULL DEFAULT 0.0 CHECK (typeof(gain) = 'real'),
    created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??Z'),
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'leased', 'done', 'failed')),
    agent TEXT NOT NULL DEFAULT '' CHECK (typeof(agent) = 'text'),
    lease_until TEXT CHECK (lease_until GLOB '????-??-??T??:??:??Z'),
    -- Of the request that got it.
    nonce TEXT NOT NULL DEFAULT '' CHECK (typeof(nonce) = 'text'),
    -- Of the last lease.
    ended TEXT CHECK (ended GLOB '????-??-??T??:??:??Z'),
    attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    result TEXT NOT NULL DEFAULT '' CHECK (typeof(result) = 'text')
);

CREATE INDEX IF NOT EXISTS service_task_open ON service_task (state, gain);

-- Findings that somebody has seen (acknowledged), or that are no finding until a date (muted).
CREATE TABLE IF NOT EXISTS service_mark (
    system TEXT NOT NULL CHECK (typeof(system) = 'text' AND system <> ''),
    -- The case string, or the check's name where it has none.
    problem TEXT NOT NULL CHECK (typeof(problem) = 'text' AND problem <> ''),
    -- ReFrame's environment, which names the MPI library.
    environment TEXT NOT NULL CHECK (typeof(environment) = 'text'),
    -- The last day that it is muted; '': acknowledged, until it fails in a later night.
    until TEXT NOT NULL CHECK (until = '' OR until GLOB '????-??-??'),
    at TEXT NOT NULL CHECK (at GLOB '????-??-??T??:??:??Z'),
    by TEXT NOT NULL CHECK (typeof(by) = 'text' AND by <> ''),
    why TEXT NOT NULL CHECK (typeof(why) = 'text' AND why <> ''),
    PRIMARY KEY (system, problem, environment)
) WITHOUT ROWID;
