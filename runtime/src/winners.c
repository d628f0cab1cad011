/* The only file that touches SQLite. */
#include "winners.h"

#include <limits.h>
#include <regex.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(OMPI_MAJOR_VERSION)
#define MPI_LIBRARY "openmpi"
#elif defined(MPICH_VERSION)
#define MPI_LIBRARY "mpich"
#else
#error "this MPI library is neither Open MPI nor MPICH"
#endif

enum {
    SCHEMA_VERSION = 1,
    BUSY_MILLISECONDS = 200,
    MOST_STEPS =
        20000, /* times 1000 instructions of SQLite's machine: ends what a damaged file may begin */
};

/* One load: the open database, and where a failure is explained. */
struct load {
    sqlite3 *database;
    char system[256];
    char
        version[MPI_MAX_LIBRARY_VERSION_STRING]; /* of the MPI library, without blanks at the end */
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

/* What SQLite has against the database, with the way out. */
static bool fail_in_sqlite(struct load *load) {
    const int code = sqlite3_errcode(load->database) & 0xff;
    const char *text = sqlite3_errmsg(load->database);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return fail(load, "it is locked by a tuner (%s); start again when it is done", text);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return fail(load, "it is damaged (%s); restore it or tune anew", text);
    return fail(load, "%s; check the file and its permissions", text);
}

static int count_step(void *steps) {
    return ++*(int *)steps > MOST_STEPS;
}

static bool prepare(struct load *load, const char *sql, sqlite3_stmt **statement) {
    return sqlite3_prepare_v2(load->database, sql, -1, statement, NULL) == SQLITE_OK ||
           fail_in_sqlite(load);
}

/* A text column, or "" where the file holds none. */
static const char *text_of(sqlite3_stmt *statement, int column) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text == NULL ? "" : (const char *)text;
}

static bool check_schema(struct load *load) {
    sqlite3_stmt *statement = NULL;
    if (!prepare(load, "PRAGMA user_version", &statement))
        return false;
    const bool found = sqlite3_step(statement) == SQLITE_ROW;
    const int version = found ? sqlite3_column_int(statement, 0) : 0;
    (void)sqlite3_finalize(statement);
    if (!found)
        return fail_in_sqlite(load);
    if (version > SCHEMA_VERSION)
        return fail(load,
                    "its schema %d is newer than this library's %d; use the library it was "
                    "tuned with",
                    version, SCHEMA_VERSION);
    if (version < SCHEMA_VERSION)
        return fail(load,
                    "it is no Collforge database of schema %d; name one that "
                    "'collforge tune' has written",
                    SCHEMA_VERSION);
    return true;
}

/* Whether the whole host name matches the pattern; an empty or malformed one matches none. */
static bool host_matches(const char *pattern, const char *host) {
    regex_t compiled;
    regmatch_t match;
    if (*pattern == '\0' || regcomp(&compiled, pattern, REG_EXTENDED) != 0)
        return false;
    const bool matches = regexec(&compiled, host, 1, &match, 0) == 0 && match.rm_so == 0 &&
                         host[match.rm_eo] == '\0';
    regfree(&compiled);
    return matches;
}

/* Which system's winners apply when the user names none. */
static bool find_system(struct load *load) {
    char host[256] = "";
    char matching[sizeof load->system] = "";
    int systems = 0;
    int matches = 0;
    int code = SQLITE_OK;
    sqlite3_stmt *statement = NULL;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    if (!prepare(load, "SELECT DISTINCT system, host_pattern FROM winner_view", &statement))
        return false;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        systems++;
        (void)snprintf(load->system, sizeof load->system, "%s", text_of(statement, 0));
        if (!host_matches(text_of(statement, 1), host))
            continue;
        matches++;
        memcpy(matching, load->system, sizeof matching);
    }
    (void)sqlite3_finalize(statement);
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

/* Columns: layout, collective, bytes, family, parameters, fingerprint. */
static bool add_row(struct load *load, sqlite3_stmt *row) {
    char text[1024];
    char why[256] = "";
    struct cf_choice choice;
    const char *collective = text_of(row, 1);
    const char *family = text_of(row, 3);
    const char *parameters = text_of(row, 4);
    const sqlite3_int64 bytes = sqlite3_column_int64(row, 2);
    const int index = cf_collective_find(collective, strlen(collective));
    const int length =
        snprintf(text, sizeof text, *parameters == '\0' ? "%s%s" : "%s[%s]", family, parameters);
    if (bytes < 1 || bytes > INT_MAX)
        return true; /* always native */
    if (index < 0)
        return fail(load, "this library has no collective '%.80s'; build it anew or tune anew",
                    collective);
    if (length >= (int)sizeof text || strlen(text_of(row, 0)) >= CF_LAYOUT_NAME_SIZE)
        return fail(load, "it is damaged (a text without end); restore it or tune anew");
    if (!cf_choice_parse(text, (size_t)length, index, &choice, why, sizeof why))
        return fail(load, "%s; build the library anew or tune anew", why);
    if (choice.variant != NULL && strcmp(choice.variant->fingerprint, text_of(row, 5)) != 0)
        return fail(load, "its %s for %s was measured with other generated code; tune anew", family,
                    collective);
    return cf_winners_add(load->winners, text_of(row, 0), index, (int)bytes, &choice) ||
           fail(load, "memory is out");
}

static bool load_rows(struct load *load) {
    static const char sql[] =
        "SELECT layout, collective, bytes, family, parameters, fingerprint "
        "FROM winner_view WHERE system = ? AND mpi = ? "
        "AND rtrim(mpi_version, ' ' || char(9, 10)) IN (?, ?)";
    const int before = load->winners->count;
    int code = SQLITE_OK;
    bool good = true;
    sqlite3_stmt *statement = NULL;
    if (!prepare(load, sql, &statement))
        return false;
    if (sqlite3_bind_text(statement, 1, load->system, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_text(statement, 2, MPI_LIBRARY, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_text(statement, 3, load->version, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_text(statement, 4, load->first_line, -1, SQLITE_STATIC) == SQLITE_OK)
        while (good && (code = sqlite3_step(statement)) == SQLITE_ROW)
            good = add_row(load, statement);
    if (good && code != SQLITE_DONE)
        good = fail_in_sqlite(load);
    (void)sqlite3_finalize(statement);
    if (good && load->winners->count == before)
        good = fail(load,
                    "it has no winners of system %s for %s; run 'collforge tune --system %s "
                    "--mpi " MPI_LIBRARY "'",
                    load->system, load->first_line, load->system);
    if (!good)
        load->winners->count = before;
    return good;
}

static bool open_database(struct load *load, const char *path) {
    struct stat status;
    if (stat(path, &status) != 0)
        return fail(load, "there is no such file; run 'collforge tune --db %s'", path);
    if (!S_ISREG(status.st_mode))
        return fail(load, "it is not a file; name one that 'collforge tune' has written");
    /* Never written to, but a tuner that was killed in mid-commit leaves a journal that only a
     * writer may roll back; where the file is write-protected SQLite falls back to reading. */
    return sqlite3_open_v2(path, &load->database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK ||
           fail_in_sqlite(load);
}

static bool find_version(struct load *load) {
    int length = 0;
    if (PMPI_Get_library_version(load->version, &length) != MPI_SUCCESS)
        return fail(load, "the MPI library does not tell its version");
    length = (int)strlen(load->version);
    while (length > 0 && strchr(" \t\n", load->version[length - 1]) != NULL)
        load->version[--length] = '\0';
    memcpy(load->first_line, load->version, sizeof load->first_line);
    load->first_line[strcspn(load->first_line, "\n")] = '\0';
    return true;
}

bool cf_winners_load(const char *path, const char *system, struct cf_winners *winners, char *why,
                     size_t whysize) {
    int steps = 0;
    struct load load = {.winners = winners, .why = why, .whysize = whysize};
    bool good = find_version(&load) && open_database(&load, path);
    if (good) {
        (void)sqlite3_busy_timeout(load.database, BUSY_MILLISECONDS);
        sqlite3_progress_handler(load.database, 1000, count_step, &steps);
        good = check_schema(&load);
    }
    if (good && system != NULL)
        (void)snprintf(load.system, sizeof load.system, "%s", system);
    else if (good)
        good = find_system(&load);
    good = good && load_rows(&load);
    (void)sqlite3_close(load.database);
    return good;
}
