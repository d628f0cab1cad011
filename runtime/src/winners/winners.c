/* The only file that queries a database. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "winners/winners.h"

#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "winners/choice.h"
#include "winners/sqlite.h"

#if defined(OMPI_MAJOR_VERSION)
#define MPI_LIBRARY "openmpi"
#elif defined(MPICH_VERSION)
#define MPI_LIBRARY "mpich"
#else
#error "this MPI library is neither Open MPI nor MPICH"
#endif

enum {
    OLDEST_SCHEMA = 1, /* without winner.evidence: all winners are decided */
    SCHEMA_VERSION = 5,
    SCHEMA_OF_MAP = 5, /* the first with the table of the map */
    TRIES = 4,         /* retries while a tuner writes */
    PAUSE_MILLISECONDS = 50,
    MOST_PATH = 4096,
    /* Limits for damaged, huge or slow files. A step is 10 SQLite instructions. */
    MOST_STEPS = 2000000,
    MOST_SECONDS = 10,
    MOST_TEXT = 1 << 20,
    MOST_PATTERN = 255,
};

/* Queries the tables, because winner_view does not tell what a winner is based on. A library is
 * identified by its version, because its name is chosen by the site (COLLFORGE_MPI_<NAME>). */
#define WINNERS_SQL(evidence)                                                                      \
    "SELECT layout.name, winner.collective, winner.bytes, variant.family, variant.parameters,"     \
    " variant.fingerprint, verification.passed, " evidence                                         \
    " FROM winner JOIN system ON system.id = winner.system"                                        \
    " JOIN mpi_library ON mpi_library.id = winner.mpi_library"                                     \
    " JOIN layout ON layout.id = winner.layout JOIN variant ON variant.id = winner.variant"        \
    " LEFT JOIN verification ON verification.id = winner.verification"                             \
    " AND verification.variant = winner.variant"                                                   \
    " WHERE system.name = ?"                                                                       \
    " AND rtrim(mpi_library.version, ' ' || char(9, 10)) IN (?, ?)"

/* The same columns, of the points of the map. */
static const char map_sql[] =
    "SELECT '~' || map.nodes || 'x' || map.ranks_per_node, map.collective, map.bytes,"
    " variant.family, variant.parameters, variant.fingerprint, verification.passed, 'decided'"
    " FROM map JOIN system ON system.id = map.system"
    " JOIN mpi_library ON mpi_library.id = map.mpi_library"
    " JOIN variant ON variant.id = map.variant"
    " LEFT JOIN verification ON verification.id = map.verification"
    " AND verification.variant = map.variant"
    " WHERE system.name = ?"
    " AND rtrim(mpi_library.version, ' ' || char(9, 10)) IN (?, ?)";

static const char systems_sql[] =
    "SELECT name, host_pattern FROM system"
    " WHERE EXISTS (SELECT 1 FROM winner WHERE winner.system = system.id)";

/* Changes when the file is written. */
struct stamp {
    struct stat status;
    unsigned char counter[4]; /* SQLite's file change counter */
};

/* The state of one load: the open database, and the buffer for a failure's reason. */
struct load {
    const char *path;
    struct stamp stamp;
    struct cf_sqlite sqlite;
    sqlite3 *database;
    int schema;
    int steps;
    time_t deadline;
    char system[256];
    char version[MPI_MAX_LIBRARY_VERSION_STRING]; /* of the MPI library, without trailing blanks */
    char first_line[MPI_MAX_LIBRARY_VERSION_STRING]; /* of version */
    struct cf_winners *winners;
    char *why;
    size_t whysize;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct load *load, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(load->why, load->whysize, format, arguments);
    va_end(arguments);
    return false;
}

/* Fails with SQLite's error and a remedy. */
static bool fail_in_sqlite(struct load *load) {
    const int code = load->sqlite.errcode(load->database) & 0xff;
    const char *text = load->sqlite.errmsg(load->database);
    if (code == SQLITE_INTERRUPT)
        return fail(load, "reading takes too long; tune into a new file, on a faster file system");
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return fail(load, "it is damaged (%s); restore it or tune anew", text);
    if (code == SQLITE_ERROR && load->schema > SCHEMA_VERSION)
        return fail(load,
                    "its schema %d is newer than this library's %d (%s); use the library it was "
                    "tuned with",
                    load->schema, SCHEMA_VERSION, text);
    return fail(load, "%s; check the file and its permissions", text);
}

static time_t seconds_now(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static int is_over(void *argument) {
    struct load *load = argument;
    return ++load->steps > MOST_STEPS || seconds_now() > load->deadline;
}

static bool prepare(struct load *load, const char *sql, sqlite3_stmt **statement) {
    return load->sqlite.prepare_v2(load->database, sql, -1, statement, NULL) == SQLITE_OK ||
           fail_in_sqlite(load);
}

/* A text column, or "" if it is NULL. */
static const char *text_of(const struct load *load, sqlite3_stmt *statement, int column) {
    const unsigned char *text = load->sqlite.column_text(statement, column);
    return text == NULL ? "" : (const char *)text;
}

static bool check_schema(struct load *load) {
    sqlite3_stmt *statement = NULL;
    if (!prepare(load, "PRAGMA user_version", &statement))
        return false;
    const bool found = load->sqlite.step(statement) == SQLITE_ROW;
    const int version = found ? load->sqlite.column_int(statement, 0) : 0;
    (void)load->sqlite.finalize(statement);
    load->schema = version;
    if (!found)
        return fail_in_sqlite(load);
    if (version < OLDEST_SCHEMA)
        return fail(load,
                    "it is no Collforge database of schema %d; name one that "
                    "'collforge tune' has written",
                    SCHEMA_VERSION);
    return true;
}

/* Back references, repeated repetitions and large numbers of repetitions can take a matcher
 * forever, or exhaust the memory. */
static bool is_harmless(const char *pattern) {
    for (const char *c = pattern; *c != '\0'; c++)
        if ((*c == '\\' && c[1] >= '1' && c[1] <= '9') ||
            (c[1] == '{' && strchr(")}*+?", *c) != NULL) ||
            ((*c == '{' || *c == ',') && strspn(c + 1, "0123456789") > 2))
            return false;
    return strlen(pattern) <= MOST_PATTERN;
}

/* Whether the whole host name matches the pattern; an empty or malformed one matches none. */
static bool host_matches(const char *pattern, const char *host) {
    regex_t compiled;
    regmatch_t match;
    if (*pattern == '\0' || !is_harmless(pattern) || regcomp(&compiled, pattern, REG_EXTENDED) != 0)
        return false;
    const bool matches = regexec(&compiled, host, 1, &match, 0) == 0 && match.rm_so == 0 &&
                         host[match.rm_eo] == '\0';
    regfree(&compiled);
    return matches;
}

/* Finds the system whose winners apply when the user names none. */
static bool find_system(struct load *load) {
    char host[256] = "";
    char matching[sizeof load->system] = "";
    int systems = 0;
    int matches = 0;
    int code = SQLITE_OK;
    sqlite3_stmt *statement = NULL;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    if (!prepare(load, systems_sql, &statement))
        return false;
    while ((code = load->sqlite.step(statement)) == SQLITE_ROW) {
        systems++;
        (void)snprintf(load->system, sizeof load->system, "%s", text_of(load, statement, 0));
        if (!host_matches(text_of(load, statement, 1), host))
            continue;
        matches++;
        memcpy(matching, load->system, sizeof matching);
    }
    (void)load->sqlite.finalize(statement);
    if (code != SQLITE_DONE)
        return fail_in_sqlite(load);
    if (systems == 0)
        return fail(load, "it has no winners yet; run 'collforge tune'");
    if (matches == 1)
        memcpy(load->system, matching, sizeof matching);
    return matches == 1 || systems == 1 ||
           fail(load, "%d of its %d systems match host %s; set COLLFORGE_SYSTEM", matches, systems,
                host);
}

/* Adds a row of WINNERS_SQL. */
static bool add_row(struct load *load, sqlite3_stmt *row) {
    char text[1024];
    char why[256] = "";
    struct cf_choice choice;
    const char *layout = text_of(load, row, 0);
    const char *collective = text_of(load, row, 1);
    const sqlite3_int64 bytes = load->sqlite.column_int64(row, 2);
    const char *family = text_of(load, row, 3);
    const char *parameters = text_of(load, row, 4);
    const int index = cf_collective_find(collective, strlen(collective));
    const int length =
        snprintf(text, sizeof text, *parameters == '\0' ? "%s%s" : "%s[%s]", family, parameters);
    if (bytes < 1 || bytes > CF_MOST_BYTES)
        return true; /* always native */
    if (load->winners->count >= CF_MOST_WINNERS && layout[0] == CF_MAP_POINT)
        return true; /* the map comes last */
    if (load->winners->count >= CF_MOST_WINNERS)
        return fail(load, "it has more than %d winners; tune into a new file", CF_MOST_WINNERS);
    if (index < 0)
        return fail(load, "this library has no collective '%.80s'; build it anew or tune anew",
                    collective);
    if (length >= (int)sizeof text || strlen(layout) >= CF_LAYOUT_NAME_SIZE ||
        strcmp(layout, CF_ANY_LAYOUT) == 0)
        return fail(
            load,
            "it is damaged (a layout or variant name that cannot exist); restore it or tune "
            "anew");
    const bool known = cf_choice_parse(text, (size_t)length, index, &choice, why, sizeof why);
    const bool is_variant = known && choice.variant != NULL;
    const bool same =
        !is_variant || strcmp(choice.variant->fingerprint, text_of(load, row, 5)) == 0;
    const bool proven = !is_variant || load->sqlite.column_int(row, 6) == 1;
    /* A tuner replaces winners after each job, but the map at its end only. */
    if (layout[0] == CF_MAP_POINT && !(known && same && proven))
        return true;
    if (!known)
        return fail(load, "%s; build the library anew or tune anew", why);
    if (!same)
        return fail(load, "its %s for %s was measured with other generated code; tune anew", family,
                    collective);
    if (!proven)
        return fail(load, "its %s for %s has no passing verification; tune anew", family,
                    collective);
    if (!cf_winners_add(load->winners, layout, index, (int)bytes, &choice))
        return fail(load, "out of memory");
    if (choice.variant == NULL && strcmp(text_of(load, row, 7), "tie") == 0)
        load->winners->items[load->winners->count - 1].variant = CF_NATIVE_TIES;
    return true;
}

static bool bind(struct load *load, sqlite3_stmt *statement, int index, const char *text) {
    return load->sqlite.bind_text(statement, index, text, -1, SQLITE_STATIC) == SQLITE_OK ||
           fail_in_sqlite(load);
}

static bool run_query(struct load *load, const char *sql) {
    int code = SQLITE_OK;
    sqlite3_stmt *statement = NULL;
    if (!prepare(load, sql, &statement))
        return false;
    bool good = bind(load, statement, 1, load->system) && bind(load, statement, 2, load->version) &&
                bind(load, statement, 3, load->first_line);
    while (good && (code = load->sqlite.step(statement)) == SQLITE_ROW)
        good = add_row(load, statement);
    if (good && code != SQLITE_DONE)
        good = fail_in_sqlite(load);
    (void)load->sqlite.finalize(statement);
    return good;
}

static bool load_rows(struct load *load) {
    struct cf_winners *winners = load->winners;
    const int before = winners->count;
    const char *sql =
        load->schema > OLDEST_SCHEMA ? WINNERS_SQL("winner.evidence") : WINNERS_SQL("'decided'");
    bool good = run_query(load, sql) && (load->schema < SCHEMA_OF_MAP || run_query(load, map_sql));
    const struct cf_winners loaded = {.items = winners->items + before,
                                      .count = winners->count - before};
    if (good && loaded.count == 0)
        good = fail(load,
                    "it has no winners of system %s for %s; run 'collforge tune --system %s "
                    "--mpi " MPI_LIBRARY "'",
                    load->system, load->first_line, load->system);
    if (good && cf_winners_layouts(&loaded) > CF_MOST_LAYOUTS)
        good = fail(load, "it has winners for more than %d layouts; tune into a new file",
                    CF_MOST_LAYOUTS);
    if (!good)
        winners->count = before;
    return good;
}

/* ---- the file -------------------------------------------------------------------------------- */

/*
 * The file is read without locks, which may hang or fail on network file systems, and without
 * rolling back a journal. Concurrent writes of a tuner show in the journal beside the file, and in
 * stamps taken before and after.
 */
static bool has_journal(struct load *load) {
    static const char *const endings[] = {"-journal", "-wal"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char path[MOST_PATH + 16];
        struct stat status;
        (void)snprintf(path, sizeof path, "%s%s", load->path, endings[i]);
        if (stat(path, &status) == 0 && status.st_size > 0)
            return true;
    }
    return false;
}

static struct stamp stamp_of(const char *path) {
    enum { COUNTER = 24 };
    struct stamp stamp;
    memset(&stamp, 0, sizeof stamp);
    /* Opening a pipe would block until it has a writer. */
    const bool is_file = stat(path, &stamp.status) == 0 && S_ISREG(stamp.status.st_mode);
    FILE *file = is_file ? fopen(path, "rb") : NULL;
    if (file != NULL) {
        if (fseek(file, COUNTER, SEEK_SET) == 0)
            (void)fread(stamp.counter, sizeof stamp.counter, 1, file);
        (void)fclose(file);
    }
    return stamp;
}

static bool is_unchanged(const struct load *load) {
    const struct stamp now = stamp_of(load->path);
    const struct stat *then = &load->stamp.status;
    return now.status.st_ino == then->st_ino && now.status.st_size == then->st_size &&
           now.status.st_mtim.tv_sec == then->st_mtim.tv_sec &&
           now.status.st_mtim.tv_nsec == then->st_mtim.tv_nsec &&
           memcmp(now.counter, load->stamp.counter, sizeof now.counter) == 0;
}

/* Writes the path as a URI that opens the file as immutable. */
static void write_uri(const char *path, char *uri, size_t size) {
    size_t used = (size_t)snprintf(uri, size, "file:");
    for (const char *c = path; *c != '\0' && used + 4 < size; c++)
        used += (size_t)snprintf(uri + used, size - used,
                                 strchr("?#%", *c) == NULL ? "%c" : "%%%02x", (unsigned char)*c);
    (void)snprintf(uri + used, size - used, "?mode=ro&immutable=1");
}

static bool open_database(struct load *load) {
    char uri[3 * MOST_PATH + 64];
    struct stat status;
    load->stamp = stamp_of(load->path);
    if (stat(load->path, &status) != 0 && errno == ENOENT)
        return fail(load, "there is no such file; run 'collforge tune --db %s'", load->path);
    if (stat(load->path, &status) != 0)
        return fail(load, "%s; name a file that 'collforge tune' has written", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(load, "it is not a file; name one that 'collforge tune' has written");
    if (status.st_size == 0)
        return fail(load, "it is empty; name a file that 'collforge tune' has written");
    write_uri(load->path, uri, sizeof uri);
    if (load->sqlite.open_v2(uri, &load->database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) !=
        SQLITE_OK)
        return fail_in_sqlite(load);
    load->sqlite.progress_handler(load->database, 10, is_over, load);
    (void)load->sqlite.limit(load->database, SQLITE_LIMIT_LENGTH, MOST_TEXT);
    /* Advice of sqlite.org/security.html for untrusted files. mmap_size = 0, because truncating a
     * mapped file kills its readers. Errors are ignored: the queries below would report them. */
    (void)load->sqlite.exec(
        load->database,
        "PRAGMA mmap_size = 0; PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0", NULL, NULL,
        NULL);
    return true;
}

static bool find_version(struct load *load) {
    int length = 0;
    if (PMPI_Get_library_version(load->version, &length) != MPI_SUCCESS)
        return fail(load, "the MPI library returns no version");
    length = (int)strlen(load->version);
    while (length > 0 && strchr(" \t\n", load->version[length - 1]) != NULL)
        load->version[--length] = '\0';
    memcpy(load->first_line, load->version, sizeof load->first_line);
    load->first_line[strcspn(load->first_line, "\n")] = '\0';
    return true;
}

/* Reads the whole database. The result, good or bad, is valid only if the file did not change. */
static bool load_once(struct load *load, const char *system) {
    bool good = open_database(load) && check_schema(load);
    if (good && system != NULL)
        (void)snprintf(load->system, sizeof load->system, "%s", system);
    else if (good)
        good = find_system(load);
    good = good && load_rows(load);
    if (load->database != NULL)
        (void)load->sqlite.close(load->database);
    load->database = NULL;
    return good;
}

static void pause_a_little(void) {
    const struct timespec time = {.tv_nsec = PAUSE_MILLISECONDS * 1000000L};
    (void)nanosleep(&time, NULL);
}

/* Retries until a read was not disturbed by a writer. */
static bool load_unchanged(struct load *load, const char *system) {
    const int before = load->winners->count;
    for (int i = 0; i < TRIES; i++) {
        if (i > 0)
            pause_a_little();
        if (has_journal(load))
            continue;
        load->why[0] = '\0'; /* set by the try before */
        const bool good = load_once(load, system);
        if (!has_journal(load) && is_unchanged(load))
            return good;
        load->winners->count = before;
    }
    return fail(load,
                "a tuner writes to it, or was killed in the middle; start again later, or run "
                "'collforge winners --db %s', which tidies up",
                load->path);
}

bool cf_winners_load(const char *path, const char *system, struct cf_winners *winners, char *why,
                     size_t whysize) {
    struct load load = {.path = path,
                        .deadline = seconds_now() + MOST_SECONDS,
                        .winners = winners,
                        .why = why,
                        .whysize = whysize};
    /* A tuner's journal is beside the file itself, not beside a link to it. */
    char file[PATH_MAX];
    load.path = realpath(path, file) == NULL ? path : file;
    bool good = find_version(&load) && cf_sqlite_load(&load.sqlite, why, whysize);
    if (good && strlen(load.path) > MOST_PATH)
        good = fail(&load, "its name is too long");
    good = good && load_unchanged(&load, system);
    cf_sqlite_unload(&load.sqlite);
    return good;
}
