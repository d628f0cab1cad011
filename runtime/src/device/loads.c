/*
 * Detects libraries that are loaded while the program runs. A GPU runtime may be among them, often
 * as a dependency, so every load counts: all communicators are unsettled (comm.h), and the next
 * call of each kind searches again. Settled calls need no check and cost nothing.
 *
 * dlopen depends on the address it is called from: its RUNPATH, $ORIGIN and namespace. So our
 * wrapper must end with a jump, which keeps the caller's return address. Compilers for the two
 * architectures below do so for calls through pointers. Elsewhere dlopen is not wrapped, and a
 * runtime loaded after the first served call is not seen.
 *
 * After the jump nothing reports the end of a load. Loads by the searching thread itself have ended
 * for certain. A load by another thread holds the loader's lock, except for a few instructions at
 * its beginning. After a second it therefore counts as ended once the search has got that lock.
 */
#define _GNU_SOURCE /* RTLD_NEXT, dlmopen */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cf.h"
#include "base/symbol.h"
#include "comm/comm.h"
#include "device/gpu.h"

static const int64_t long_enough = 1000000000; /* nanoseconds */

enum { NOBODY = 0, SEVERAL = 1 }; /* never a thread's id */

static struct {
    _Atomic uintptr_t thread; /* the thread that began all loads so far */
    _Atomic int64_t begun;    /* when the last load began, in nanoseconds */
} loader = {.thread = NOBODY};

static int64_t now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- loaded libraries ------------------------------------------------------------------------ */

struct search {
    const char *stem; /* "libcuda.so" */
    char path[PATH_MAX];
};

/* A library's file name is its soname, maybe with more version numbers. */
static int compare(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash == NULL ? info->dlpi_name : slash + 1;
    (void)size;
    if (strncmp(name, search->stem, strlen(search->stem)) != 0) {
        return 0;
    }
    (void)snprintf(search->path, sizeof search->path, "%s", info->dlpi_name);
    return 1;
}

typedef void *open_function(const char *, int);

#if defined(__x86_64__) || defined(__aarch64__)

typedef void *open_in_function(Lmid_t, const char *, int);

/* Looked up at first use, because other libraries call dlopen before our constructors run. */
static open_function *next_open(void) {
    static _Atomic(open_function *) next = NULL;
    open_function *known = atomic_load_explicit(&next, memory_order_relaxed);
    if (known == NULL) {
        (void)cf_symbol(RTLD_NEXT, "dlopen", &known);
        atomic_store_explicit(&next, known, memory_order_relaxed);
    }
    return known;
}

static open_in_function *next_open_in(void) {
    open_in_function *known = NULL;
    (void)cf_symbol(RTLD_NEXT, "dlmopen", &known);
    return known;
}

static void count_load(const char *file, int mode) {
    const uintptr_t self = (uintptr_t)pthread_self();
    uintptr_t thread = NOBODY;
    if (file == NULL || (mode & RTLD_NOLOAD) != 0) {
        return;
    }
    atomic_store(&loader.begun, now());
    if (!atomic_compare_exchange_strong(&loader.thread, &thread, self) && thread != self) {
        atomic_store(&loader.thread, SEVERAL);
    }
    (void)atomic_fetch_add(&cf_gpu_known.loads, 1);
    cf_states_for_each(cf_state_unsettle);
}

CF_APART static open_function *begin(const char *file, int mode) {
    count_load(file, mode);
    return next_open();
}

CF_APART static open_in_function *begin_in(const char *file, int mode) {
    count_load(file, mode);
    return next_open_in();
}

COLLFORGE_PUBLIC void *dlopen(const char *file, int mode) {
    return begin(file, mode)(file, mode);
}

COLLFORGE_PUBLIC void *dlmopen(Lmid_t space, const char *file, int mode) {
    return begin_in(file, mode)(space, file, mode);
}

#else

static open_function *next_open(void) {
    return dlopen;
}

#endif

/* Searches the loaded libraries only: dlopen with RTLD_NOLOAD would search all folders for a
 * missing file. */
void *cf_loaded(const char *stem) {
    struct search search = {.stem = stem};
    return dl_iterate_phdr(compare, &search) == 0
               ? NULL
               : next_open()(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

bool cf_loads_have_ended(void) {
    const uintptr_t thread = atomic_load(&loader.thread);
    if (thread == NOBODY || thread == (uintptr_t)pthread_self()) {
        return true;
    }
    if (now() - atomic_load(&loader.begun) <= long_enough) {
        return false;
    }
    /* "/" is not a library and needs no search: this only waits for the loader's lock. */
    (void)next_open()("/", RTLD_LAZY | RTLD_NOLOAD);
    return true;
}
