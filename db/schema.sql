-- The schema of a Collforge database, version 10. Statements are separated by blank lines.
--
-- Deployed libraries of an older version go on reading: what the runtime reads (winners.c) keeps its meaning, or
-- gets another name.
--
-- Types are held by CHECK constraints and not by STRICT, because the runtime opens the file with the
-- SQLite of the cluster, and enterprise Linux ships 3.26. For the same reason the journal is never WAL,
-- which a reader without write permission could not open.
--
-- Provenance: system, mpi_library, layout, variant and run say where a number is from; verification and
-- measurement are what was found; winner follows from these and can be rebuilt at any time; decision is its history.
-- Production jobs add job and verdict, from which learnt follows; nights add finding, applications profile.

CREATE TABLE system (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE CHECK (typeof(name) = 'text' AND name <> ''),
    -- Regular expression of the host names that belong to the system; '' matches none.
    host_pattern TEXT NOT NULL DEFAULT '' CHECK (typeof(host_pattern) = 'text')
);

CREATE TABLE mpi_library (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL CHECK (typeof(name) = 'text' AND name <> ''),
    version TEXT NOT NULL CHECK (typeof(version) = 'text' AND version <> ''),
    UNIQUE (name, version)
);

CREATE TABLE layout (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE CHECK (typeof(name) = 'text' AND name <> ''),
    nodes INTEGER NOT NULL CHECK (typeof(nodes) = 'integer' AND nodes > 0),
    ranks INTEGER NOT NULL CHECK (typeof(ranks) = 'integer' AND ranks >= nodes)
);

CREATE TABLE variant (
    id INTEGER PRIMARY KEY,
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    family TEXT NOT NULL CHECK (typeof(family) = 'text' AND family <> ''),
    -- The text inside the brackets of the variant's name, '' if there is none.
    parameters TEXT NOT NULL DEFAULT '' CHECK (typeof(parameters) = 'text'),
    -- Of the generated source; the runtime ignores a winner whose fingerprint is not its own.
    fingerprint TEXT NOT NULL DEFAULT '' CHECK (typeof(fingerprint) = 'text'),
    UNIQUE (collective, family, parameters, fingerprint),
    CHECK ((family = 'native') = (fingerprint = '')),
    CHECK (family <> 'native' OR parameters = '')
);

-- For each fingerprint, the hash of each C file's contribution to it.
CREATE TABLE source (
    fingerprint TEXT NOT NULL CHECK (typeof(fingerprint) = 'text' AND fingerprint <> ''),
    file TEXT NOT NULL CHECK (typeof(file) = 'text' AND file <> ''),
    hash TEXT NOT NULL CHECK (typeof(hash) = 'text' AND hash <> ''),
    PRIMARY KEY (fingerprint, file)
) WITHOUT ROWID;

-- What `collforge probe lanes` found last on a system with an MPI library.
CREATE TABLE lanes (
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    -- Physical lanes of a node.
    number INTEGER NOT NULL CHECK (typeof(number) = 'integer' AND number > 0),
    -- Bytes per second of a lane, in each direction.
    rate REAL NOT NULL CHECK (typeof(rate) = 'real' AND rate > 0),
    PRIMARY KEY (system, mpi_library)
) WITHOUT ROWID;

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE CHECK (typeof(uuid) = 'text' AND uuid <> ''),
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    layout INTEGER NOT NULL REFERENCES layout (id),
    started TEXT NOT NULL CHECK (started GLOB '????-??-??T??:??:??Z'),
    tool_version TEXT NOT NULL CHECK (typeof(tool_version) = 'text'),
    reframe_version TEXT NOT NULL CHECK (typeof(reframe_version) = 'text'),
    -- JSON array of the host of each node.
    hosts TEXT NOT NULL CHECK (hosts GLOB '[[]*]'),
    seed INTEGER NOT NULL CHECK (typeof(seed) = 'integer'),
    -- ReFrame's name of the launcher, and what started the ranks (pmix, pmi); '' where not known.
    launcher TEXT NOT NULL DEFAULT '' CHECK (typeof(launcher) = 'text'),
    pmi TEXT NOT NULL DEFAULT '' CHECK (typeof(pmi) = 'text'),
    -- JSON array of the switches between the network's root and each node; [] where not known.
    switches TEXT NOT NULL DEFAULT '[]' CHECK (switches GLOB '[[]*]'),
    -- The scheduler's name of the job; '' where not known.
    scheduler_job TEXT NOT NULL DEFAULT '' CHECK (typeof(scheduler_job) = 'text'),
    -- That the job ran on its nodes; 0 where not known.
    seconds INTEGER NOT NULL DEFAULT 0 CHECK (seconds >= 0)
);

CREATE INDEX run_place ON run (system, mpi_library, layout);

CREATE TABLE verification (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (id),
    variant INTEGER NOT NULL REFERENCES variant (id),
    problem TEXT NOT NULL CHECK (typeof(problem) = 'text' AND problem <> ''),
    passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
    detail TEXT NOT NULL DEFAULT '' CHECK (typeof(detail) = 'text'),
    UNIQUE (run, variant, problem)
);

CREATE INDEX verification_variant ON verification (variant, passed);

CREATE TABLE measurement (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (id),
    variant INTEGER NOT NULL REFERENCES variant (id),
    problem TEXT NOT NULL CHECK (typeof(problem) = 'text' AND problem <> ''),
    collective TEXT NOT NULL CHECK (typeof(collective) = 'text' AND collective <> ''),
    bytes INTEGER NOT NULL CHECK (typeof(bytes) = 'integer' AND bytes >= 0),
    -- JSON array of seconds, in the order of the interleaved rounds.
    samples TEXT NOT NULL CHECK (samples GLOB '[[][0-9]*]'),
    median REAL NOT NULL CHECK (typeof(median) = 'real' AND median > 0),
    late INTEGER NOT NULL CHECK (typeof(late) = 'integer' AND late >= 0),
    -- JSON array: by how many seconds the last rank started late, of each sample; empty if not known.
    start_errors TEXT NOT NULL DEFAULT '[]' CHECK (start_errors GLOB '[[]*]'),
    UNIQUE (run, problem, variant)
);

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

-- Sizes that were measured and are not decided. The rule for sizes between the rows of `winner` serves them. The
-- runtime does not read this table.
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

-- The history of winners: which changed after a launch and before the next, by whatever command. The winner before
-- is that of the row before, in the order of launches, so that joining and pruning leave no wrong one. The history
-- goes with the place. The runtime does not read it.
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

-- The map: what is expected to win on layouts that were not measured, at points of nodes x ranks on each
-- (consecutive, one thread). Runtimes look up the nearest point. It follows from the measurements of all layouts.
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

-- No winner without a passing verification on record, and none with a failing one: a variant that was
-- wrong once with an MPI library is wrong. Native is the library's own code and stands for itself.
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

-- A wrong result dethrones the variant at once, whoever found it.
CREATE TRIGGER verification_dethrones AFTER INSERT ON verification
WHEN NEW.passed = 0
BEGIN
    DELETE FROM winner
    WHERE variant = NEW.variant
        AND mpi_library = (SELECT mpi_library FROM run WHERE id = NEW.run)
        AND verification IS NOT NULL;
END;

CREATE TRIGGER verification_is_not_changed BEFORE UPDATE ON verification
BEGIN
    SELECT RAISE(ABORT, 'a verification is never changed');
END;

-- Foreign keys guard this too, but only on connections that switch them on.
CREATE TRIGGER verification_is_kept BEFORE DELETE ON verification
WHEN EXISTS (SELECT 1 FROM winner WHERE verification = OLD.id)
BEGIN
    SELECT RAISE(ABORT, 'a winner rests on this verification');
END;

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

-- What `collforge winners` and `collforge report` read. The runtime reads the tables themselves.
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
