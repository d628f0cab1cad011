/*
 * Libraries that come while the program runs. A GPU runtime may be one of them, often brought by
 * another one, so every load counts: what is settled (comm.h) is dropped, and the next call of each
 * kind looks again. Settled calls need no look of their own, and so cost nothing.
 *
 * The functions of the C library take the place they are called from into account: its RUNPATH,
 * $ORIGIN, its namespace. So ours must leave by a jump, which leaves the caller's address where it
 * was; both architectures below jump through pointers. Elsewhere nothing stands in between, and a
 * runtime that comes after the first served call is not seen.
 *
 * After a jump nothing tells that a load has ended. Of those that the looking thread began itself
 * that is certain. Another thread's is under the loader's lock but for some instructions at its
 * begin, and a look waits for that lock: after a second it is taken for ended.
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

enum { NOBODY = 0, SEVERAL = 1 }; /* no thread has such a number */

static struct {
    _Atomic uintptr_t thread; /* that has begun all loads so far */
    _Atomic int64_t begun;    /* the last one, in nanoseconds */
} loader = {.thread = NOBODY};

static int64_t now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- what is there --------------------------------------------------------------------------- */

struct search {
    const char *stem; /* "libcuda.so" */
    char path[PATH_MAX];
};

/* A library's file is named as its soname, or with more of its version behind. */
static int compare(struct dl_phdr_info *info, size_t size, void *data) {
    struct search *search = data;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash == NULL ? info->dlpi_name : slash + 1;
    (void)size;
    if (strncmp(name, search->stem, strlen(search->stem)) != 0)
        return 0;
    (void)snprintf(search->path, sizeof search->path, "%s", info->dlpi_name);
    return 1;
}

typedef void *open_function(const char *, int);

#if defined(__x86_64__) || defined(__aarch64__)

typedef void *open_in_function(Lmid_t, const char *, int);

/* Found by the first one who needs them: other libraries load before our constructors run. */
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
    if (file == NULL || (mode & RTLD_NOLOAD) != 0)
        return;
    atomic_store(&loader.begun, now());
    if (!atomic_compare_exchange_strong(&loader.thread, &thread, self) && thread != self)
        atomic_store(&loader.thread, SEVERAL);
    (void)atomic_fetch_add(&cf_gpu_known.loads, 1);
    cf_states_unsettle();
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

/* Among what is loaded: dlopen with RTLD_NOLOAD would search all folders for a file that is not. */
void *cf_loaded(const char *stem) {
    struct search search = {.stem = stem};
    return dl_iterate_phdr(compare, &search) == 0
               ? NULL
               : next_open()(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

bool cf_loads_have_ended(void) {
    const uintptr_t thread = atomic_load(&loader.thread);
    if (thread == NOBODY || thread == (uintptr_t)pthread_self())
        return true;
    if (now() - atomic_load(&loader.begun) <= long_enough)
        return false;
    /* No library, and found without a search: this waits for the loader's lock and no more. */
    (void)next_open()("/", RTLD_LAZY | RTLD_NOLOAD);
    return true;
}
