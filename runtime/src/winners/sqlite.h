/*
 * SQLite, loaded by the one rank that reads a database, and unloaded afterwards. It is not linked:
 * a node without libsqlite3 could not start preloaded programs, and a program that later loads its
 * own SQLite, as Python distributions do, would get this one instead.
 */
#ifndef COLLFORGE_SQLITE_H_INCLUDED
#define COLLFORGE_SQLITE_H_INCLUDED

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#define CF_SQLITE_FUNCTIONS(use)                                                                   \
    use(config) use(initialize) use(shutdown) use(open_v2) use(close) use(errcode) use(errmsg)     \
        use(progress_handler) use(limit) use(exec) use(prepare_v2) use(bind_text) use(step)        \
            use(finalize) use(column_int) use(column_int64) use(column_text)

struct cf_sqlite {
    void *library;
    bool first_user; /* it was not in use before */
#define CF_SQLITE_MEMBER(name) __typeof__(&sqlite3_##name) name;
    CF_SQLITE_FUNCTIONS(CF_SQLITE_MEMBER)
#undef CF_SQLITE_MEMBER
};

/* Loads SQLite; false if there is no usable one, with the reason in why. */
bool cf_sqlite_load(struct cf_sqlite *sqlite, char *why, size_t whysize);
/* Restores the state of the process from before cf_sqlite_load, whether that succeeded or not. */
void cf_sqlite_unload(struct cf_sqlite *sqlite);

#endif
