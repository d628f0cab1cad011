/*
 * SQLite, loaded by the one rank that reads a database and unloaded after. It is not linked: on a
 * node without libsqlite3 no program would start under the preload, and a program that brings an
 * SQLite of its own later, as Python distributions do, would be given this one instead.
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
    bool first_user; /* nobody in this process had used it before */
#define CF_SQLITE_MEMBER(name) __typeof__(&sqlite3_##name) name;
    CF_SQLITE_FUNCTIONS(CF_SQLITE_MEMBER)
#undef CF_SQLITE_MEMBER
};

/* Fills sqlite; false where there is no usable SQLite, with the reason in why. */
bool cf_sqlite_load(struct cf_sqlite *sqlite, char *why, size_t whysize);
/* Leaves the process as it was before, whether loading succeeded or not. */
void cf_sqlite_unload(struct cf_sqlite *sqlite);

#endif
