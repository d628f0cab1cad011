#define _GNU_SOURCE /* RTLD_DEFAULT, RTLD_DEEPBIND */
#include "winners/sqlite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/symbol.h"

static const char library_name[] = "libsqlite3.so.0";

/*
 * Whether the program has an SQLite of its own, under the public names. The calls inside the
 * library would then go to the program's functions, unless the library is bound to its own first
 * (RTLD_DEEPBIND).
 */
static bool is_overridden(void) {
    const char *name = "sqlite3_initialize";
    const void *first = dlsym(RTLD_DEFAULT, name);
    void *loaded = first == NULL ? NULL : dlopen(library_name, RTLD_NOW | RTLD_NOLOAD);
    const bool own = loaded == NULL || dlsym(loaded, name) != first;
    if (loaded != NULL) {
        (void)dlclose(loaded);
    }
    return first != NULL && own;
}

bool cf_sqlite_load(struct cf_sqlite *sqlite, char *why, size_t whysize) {
    sqlite3_mutex_methods unused;
    memset(sqlite, 0, sizeof *sqlite);
    const bool overridden = is_overridden();
    if (overridden && dlsym(RTLD_DEFAULT, "__asan_init") != NULL) {
        (void)snprintf(why, whysize, "AddressSanitizer refuses a second SQLite in a program");
        return false;
    }
    sqlite->library =
        dlopen(library_name, RTLD_NOW | RTLD_LOCAL | (overridden ? RTLD_DEEPBIND : 0));
    if (sqlite->library == NULL) {
        (void)snprintf(why, whysize, "%s cannot be loaded here (%s); install it", library_name,
                       dlerror());
        return false;
    }
    bool good = true;
#define FIND(name) good = good && cf_symbol(sqlite->library, "sqlite3_" #name, &sqlite->name);
    CF_SQLITE_FUNCTIONS(FIND)
#undef FIND
    if (!good) {
        (void)snprintf(why, whysize, "%s lacks functions; install SQLite 3.26 or newer",
                       library_name);
        return false;
    }
    /* A program may configure SQLite until its first use. If ours is the first, it is shut down
     * again. */
    sqlite->first_user = sqlite->config(SQLITE_CONFIG_GETMUTEX, &unused) == SQLITE_OK;
    if (sqlite->initialize() == SQLITE_OK) {
        return true;
    }
    (void)snprintf(why, whysize, "%s cannot be initialised; reinstall it", library_name);
    return false;
}

void cf_sqlite_unload(struct cf_sqlite *sqlite) {
    if (sqlite->first_user) {
        (void)sqlite->shutdown();
    }
    if (sqlite->library != NULL) {
        (void)dlclose(sqlite->library);
    }
    memset(sqlite, 0, sizeof *sqlite);
}
