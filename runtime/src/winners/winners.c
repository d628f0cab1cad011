/* The only file that queries a database; other files are for published.c. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "winners/winners.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "winners/load.h"
#include "winners/sqlite.h"

enum {
    OLDEST_SCHEMA = 1, /* without winner.evidence: all winners are decided */
    SCHEMA_VERSION = 10,
    SCHEMA_OF_MAP = 5,     /* the first with the table of the map */
    SCHEMA_OF_TIMES = 8,   /* the first with winner.seconds */
    SCHEMA_OF_LEARNT = 9,  /* the first with what jobs learnt */
    SCHEMA_OF_POINTS = 10, /* the first with extrapolated points, in another table */
    TRIES = 4,             /* retries while a tuner writes */
    PAUSE_MILLISECONDS = 50,
    MOST_PATH = 4096,
    /* Limits for damaged, huge or slow files. A step is 10 SQLite instructions. */
    MOST_STEPS = 2000000,
    MOST_TEXT = 1 << 20,
};

/* Queries the tables, because winner_view does not tell what a winner is based on. A library is
 * identified by its version, because its name is chosen by the site (COLLFORGE_MPI_<NAME>). */
#define WINNERS_SQL(evidence, times)                                                               \
    "SELECT layout.name, winner.collective, winner.bytes, variant.family, variant.parameters,"     \
    " variant.fingerprint, verification.passed, " evidence ", " times                              \
    " FROM winner JOIN system ON system.id = winner.system"                                        \
    " JOIN mpi_library ON mpi_library.id = winner.mpi_library"                                     \
    " JOIN layout ON layout.id = winner.layout JOIN variant ON variant.id = winner.variant"        \
    " LEFT JOIN verification ON verification.id = winner.verification"                             \
    " AND verification.variant = winner.variant"                                                   \
    " WHERE system.name = ?"                                                                       \
    " AND rtrim(mpi_library.version, ' ' || char(9, 10)) IN (?, ?)"

/* As in load.h. */
#define NATIVE(ratio) ", CAST(round(1e9 * winner.seconds * winner." ratio ") AS INTEGER)"
#define TIMES                                                                                      \
    "CAST(round(1e9 * winner.seconds) AS INTEGER)" NATIVE("ratio") NATIVE("ratio_low")             \
        NATIVE("ratio_high")
#define NO_TIMES "0, 0, 0, 0"

/* The same columns, of the points of the map, whose times nobody measured. */
#define MAP_SQL(table)                                                                             \
    "SELECT CASE map.evidence WHEN 'extrapolated' THEN '" CF_FAR_POINT                             \
    "' ELSE '~' END"                                                                               \
    " || map.nodes || 'x' || map.ranks_per_node, map.collective, map.bytes,"                       \
    " variant.family, variant.parameters, variant.fingerprint, verification.passed, 'decided',"    \
    " " NO_TIMES " FROM " table                                                                    \
    " AS map JOIN system ON system.id = map.system"                                                \
    " JOIN mpi_library ON mpi_library.id = map.mpi_library"                                        \
    " JOIN variant ON variant.id = map.variant"                                                    \
    " LEFT JOIN verification ON verification.id = map.verification"                                \
    " AND verification.variant = map.variant"                                                      \
    " WHERE system.name = ?"                                                                       \
    " AND rtrim(mpi_library.version, ' ' || char(9, 10)) IN (?, ?)"

/* The same of what jobs learnt. It tells of speed, not of results: the map has the verified
 * variant. */
static const char learnt_sql[] =
    "SELECT CASE learnt.confirmed WHEN 1 THEN '=' ELSE '!' END || layout.name, variant.collective,"
    " learnt.bytes, variant.family, variant.parameters, variant.fingerprint, 1, 'decided',"
    " " NO_TIMES
    " FROM learnt JOIN system ON system.id = learnt.system"
    " JOIN mpi_library ON mpi_library.id = learnt.mpi_library"
    " JOIN layout ON layout.id = learnt.layout"
    " JOIN variant ON variant.id = learnt.variant"
    " WHERE system.name = ?"
    " AND rtrim(mpi_library.version, ' ' || char(9, 10)) IN (?, ?)";

#define SYSTEMS_SQL                                                                                \
    "SELECT name, host_pattern FROM system"                                                        \
    " WHERE EXISTS (SELECT 1 FROM winner WHERE winner.system = system.id)"
static const char systems_sql[] = SYSTEMS_SQL;
static const char systems_with_map_sql[] =
    SYSTEMS_SQL " OR EXISTS (SELECT 1 FROM map WHERE map.system = system.id)";

/* Changes when the file is written. */
struct stamp {
    struct stat status;
    unsigned char counter[4]; /* SQLite's file change counter */
};

/* An open database. */
struct database {
    struct cf_load *load;
    struct stamp stamp;
    struct cf_sqlite sqlite;
    sqlite3 *connection;
    int schema;
    int steps;
};

/* Fails with SQLite's error and a remedy. */
static bool fail_in_sqlite(struct database *db) {
    const int code = db->sqlite.errcode(db->connection) & 0xff;
    const char *text = db->sqlite.errmsg(db->connection);
    if (code == SQLITE_INTERRUPT) {
        return cf_load_fail(
            db->load, "reading takes too long; tune into a new file, on a faster file system");
    }
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
        return cf_load_fail(db->load, "it is damaged (%s); restore it or tune anew", text);
    }
    if (code == SQLITE_ERROR && db->schema > SCHEMA_VERSION) {
        return cf_load_fail(
            db->load,
            "its schema %d is newer than this library's %d (%s); use the library it was "
            "tuned with",
            db->schema, SCHEMA_VERSION, text);
    }
    return cf_load_fail(db->load, "%s; check the file and its permissions", text);
}

static int is_over(void *argument) {
    struct database *db = argument;
    return ++db->steps > MOST_STEPS || cf_load_is_late(db->load);
}

static bool prepare(struct database *db, const char *sql, sqlite3_stmt **statement) {
    return db->sqlite.prepare_v2(db->connection, sql, -1, statement, NULL) == SQLITE_OK ||
           fail_in_sqlite(db);
}

/* A text column, or "" if it is NULL. */
static const char *text_of(const struct database *db, sqlite3_stmt *statement, int column) {
    const unsigned char *text = db->sqlite.column_text(statement, column);
    return text == NULL ? "" : (const char *)text;
}

static bool check_schema(struct database *db) {
    sqlite3_stmt *statement = NULL;
    if (!prepare(db, "PRAGMA user_version", &statement)) {
        return false;
    }
    const bool found = db->sqlite.step(statement) == SQLITE_ROW;
    const int version = found ? db->sqlite.column_int(statement, 0) : 0;
    (void)db->sqlite.finalize(statement);
    db->schema = version;
    if (!found) {
        return fail_in_sqlite(db);
    }
    if (version < OLDEST_SCHEMA) {
        return cf_load_fail(db->load,
                            "it is no Collforge database of schema %d; name one that "
                            "'collforge tune' has written",
                            SCHEMA_VERSION);
    }
    return true;
}

static bool find_system(struct database *db) {
    struct cf_systems systems;
    int code = SQLITE_OK;
    sqlite3_stmt *statement = NULL;
    cf_systems_begin(&systems);
    if (!prepare(db, db->schema < SCHEMA_OF_MAP ? systems_sql : systems_with_map_sql, &statement)) {
        return false;
    }
    while ((code = db->sqlite.step(statement)) == SQLITE_ROW) {
        cf_systems_add(&systems, text_of(db, statement, 0), text_of(db, statement, 1));
    }
    (void)db->sqlite.finalize(statement);
    if (code != SQLITE_DONE) {
        return fail_in_sqlite(db);
    }
    return cf_systems_choose(&systems, db->load);
}

/* Adds a row of WINNERS_SQL. */
static bool add_row(struct database *db, sqlite3_stmt *row) {
    char text[1024];
    const char *parameters = text_of(db, row, 4);
    const int length = snprintf(text, sizeof text, *parameters == '\0' ? "%s%s" : "%s[%s]",
                                text_of(db, row, 3), parameters);
    struct cf_load_choice stored = {.collective = text_of(db, row, 1),
                                    .variant = text,
                                    .fingerprint = text_of(db, row, 5),
                                    .proven = db->sqlite.column_int(row, 6) == 1};
    int64_t times[CF_TIMES];
    for (int i = 0; i < CF_TIMES; i++) {
        times[i] = db->sqlite.column_int64(row, 8 + i);
    }
    if (length >= (int)sizeof text) {
        return cf_load_fail(
            db->load, "it is damaged (a variant name that cannot exist); restore it or tune anew");
    }
    return cf_load_add(db->load, text_of(db, row, 0), db->sqlite.column_int64(row, 2), &stored,
                       strcmp(text_of(db, row, 7), "tie") == 0, times);
}

static bool bind(struct database *db, sqlite3_stmt *statement, int index, const char *text) {
    return db->sqlite.bind_text(statement, index, text, -1, SQLITE_STATIC) == SQLITE_OK ||
           fail_in_sqlite(db);
}

static bool run_query(struct database *db, const char *sql) {
    int code = SQLITE_OK;
    sqlite3_stmt *statement = NULL;
    if (!prepare(db, sql, &statement)) {
        return false;
    }
    bool good = bind(db, statement, 1, db->load->system) &&
                bind(db, statement, 2, db->load->version) &&
                bind(db, statement, 3, db->load->first_line);
    while (good && (code = db->sqlite.step(statement)) == SQLITE_ROW) {
        good = add_row(db, statement);
    }
    if (good && code != SQLITE_DONE) {
        good = fail_in_sqlite(db);
    }
    (void)db->sqlite.finalize(statement);
    return good;
}

static bool load_rows(struct database *db) {
    struct cf_load *load = db->load;
    const char *sql = db->schema >= SCHEMA_OF_TIMES ? WINNERS_SQL("winner.evidence", TIMES)
                      : db->schema > OLDEST_SCHEMA  ? WINNERS_SQL("winner.evidence", NO_TIMES)
                                                    : WINNERS_SQL("'decided'", NO_TIMES);
    const char *map = db->schema < SCHEMA_OF_POINTS ? MAP_SQL("map") : MAP_SQL("point");
    const bool good = run_query(db, sql) && (db->schema < SCHEMA_OF_MAP || run_query(db, map)) &&
                      (db->schema < SCHEMA_OF_LEARNT || run_query(db, learnt_sql)) &&
                      cf_load_end(load);
    if (!good) {
        cf_load_undo(load);
    }
    return good;
}

/* ---- the file -------------------------------------------------------------------------------- */

/*
 * The file is read without locks, which may hang or fail on network file systems, and without
 * rolling back a journal. Concurrent writes of a tuner show in the journal beside the file, and in
 * stamps taken before and after.
 */
static bool has_journal(struct database *db) {
    static const char *const endings[] = {"-journal", "-wal"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[MOST_PATH + 16];
        struct stat status;
        (void)snprintf(path, sizeof path, "%s%s", db->load->path, endings[i]);
        if (stat(path, &status) == 0 && status.st_size > 0) {
            return true;
        }
    }
    return false;
}

static struct stamp stamp_of(const char *path) {
    enum { COUNTER = 24 };
    struct stamp stamp;
    memset(&stamp, 0, sizeof stamp);
    FILE *file = cf_load_open(path, &stamp.status);
    if (file != NULL) {
        if (fseek(file, COUNTER, SEEK_SET) != 0 ||
            fread(stamp.counter, sizeof stamp.counter, 1, file) != 1) {
            memset(&stamp.counter, 0, sizeof stamp.counter);
        }
        (void)fclose(file);
    }
    return stamp;
}

static bool is_unchanged(const struct database *db) {
    const struct stamp now = stamp_of(db->load->path);
    const struct stat *then = &db->stamp.status;
    return now.status.st_ino == then->st_ino && now.status.st_size == then->st_size &&
           now.status.st_mtim.tv_sec == then->st_mtim.tv_sec &&
           now.status.st_mtim.tv_nsec == then->st_mtim.tv_nsec &&
           memcmp(now.counter, db->stamp.counter, sizeof now.counter) == 0;
}

/* Writes the path as a URI that opens the file as immutable. */
static void write_uri(const char *path, char *uri, size_t size) {
    size_t used = (size_t)snprintf(uri, size, "file:");
    for (const char *c = path; *c != '\0' && used + 4 < size; c++) {
        used += (size_t)snprintf(uri + used, size - used,
                                 strchr("?#%", *c) == NULL ? "%c" : "%%%02x", (unsigned char)*c);
    }
    (void)snprintf(uri + used, size - used, "?mode=ro&immutable=1");
}

static bool open_database(struct database *db) {
    char uri[3 * MOST_PATH + 64];
    db->stamp = stamp_of(db->load->path);
    if (!cf_load_is_file(db->load)) {
        return false;
    }
    write_uri(db->load->path, uri, sizeof uri);
    if (db->sqlite.open_v2(uri, &db->connection, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) !=
        SQLITE_OK) {
        return fail_in_sqlite(db);
    }
    db->sqlite.progress_handler(db->connection, 10, is_over, db);
    (void)db->sqlite.limit(db->connection, SQLITE_LIMIT_LENGTH, MOST_TEXT);
    /* Advice of sqlite.org/security.html for untrusted files. mmap_size = 0, because truncating a
     * mapped file kills its readers. Errors are ignored: the queries below would report them. */
    (void)db->sqlite.exec(
        db->connection,
        "PRAGMA mmap_size = 0; PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0", NULL, NULL,
        NULL);
    return true;
}

/* Reads the whole database. The result, good or bad, is valid only if the file did not change. */
static bool load_once(struct database *db) {
    const bool good = open_database(db) && check_schema(db) &&
                      (db->load->wanted != NULL || find_system(db)) && load_rows(db);
    if (db->connection != NULL) {
        (void)db->sqlite.close(db->connection);
    }
    db->connection = NULL;
    return good;
}

static void pause_a_little(void) {
    const struct timespec time = {.tv_nsec = PAUSE_MILLISECONDS * 1000000L};
    (void)nanosleep(&time, NULL);
}

/* Retries until a read was not disturbed by a writer. */
static bool load_unchanged(struct database *db) {
    struct cf_load *load = db->load;
    for (int i = 0; i < TRIES; i++) {
        if (i > 0) {
            pause_a_little();
        }
        if (has_journal(db)) {
            continue;
        }
        load->why[0] = '\0'; /* set by the try before */
        const bool good = load_once(db);
        if (!has_journal(db) && is_unchanged(db)) {
            return good;
        }
        cf_load_undo(load);
    }
    return cf_load_fail(load,
                        "a tuner writes to it, or was killed in the middle; start again later, or "
                        "run 'collforge winners --db %s', which tidies up",
                        load->path);
}

static bool load_database(struct cf_load *load) {
    struct database db = {.load = load};
    const bool good = cf_sqlite_load(&db.sqlite, load->why, load->whysize) && load_unchanged(&db);
    cf_sqlite_unload(&db.sqlite);
    return good;
}

bool cf_winners_load(const char *path, const char *sha256, const char *system,
                     struct cf_winners *winners, char *why, size_t whysize) {
    struct cf_load load = {
        .path = path, .wanted = system, .winners = winners, .why = why, .whysize = whysize};
    /* A tuner's journal is beside the file itself, not beside a link to it. */
    char file[PATH_MAX];
    load.path = realpath(path, file) == NULL ? path : file;
    if (!cf_load_begin(&load)) {
        return false;
    }
    if (strlen(load.path) > MOST_PATH) {
        return cf_load_fail(&load, "its name is too long");
    }
    const bool good = sha256 != NULL || cf_published_is(load.path)
                          ? cf_published_load(&load, sha256)
                          : load_database(&load);
    if (good) {
        memcpy(winners->system, load.system, sizeof winners->system);
    }
    return good;
}
