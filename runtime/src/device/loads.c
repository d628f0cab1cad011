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
 * its beginning. After a second it therefore counts as ended once the lock could be had. A thread
 * of its own waits for that: the load may be in a constructor that waits for the collective from
 * which the search is called.
 */
#define _GNU_SOURCE /* RTLD_NEXT, dlmopen */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
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

bool cf_is_loaded(const char *stem) {
    struct search search = {.stem = stem};
    return dl_iterate_phdr(compare, &search) != 0;
}

/* dlopen with RTLD_NOLOAD alone would search all folders for a missing file. */
void *cf_loaded(const char *stem) {
    struct search search = {.stem = stem};
    return dl_iterate_phdr(compare, &search) == 0
               ? NULL
               : next_open()(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

/* ---- the loader's lock ----------------------------------------------------------------------- */

static bool is_only_mine(void) {
    const uintptr_t thread = atomic_load(&loader.thread);
    return thread == NOBODY || thread == (uintptr_t)pthread_self();
}

/* Starts a thread that gets none of the program's signals. */
static bool start(pthread_t *thread, void *(*work)(void *)) {
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(thread, NULL, work, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void cf_beside_loads(void *(*work)(void *)) {
    enum { MOST_SECONDS = 10 };
    struct timespec end = {0};
    pthread_t thread;
    if (is_only_mine() || !start(&thread, work)) {
        (void)work(NULL);
        return;
    }
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += MOST_SECONDS;
    if (pthread_timedjoin_np(thread, NULL, &end) != 0) {
        (void)pthread_detach(thread);
    }
}

/* Loads that had begun when the lock was free; those that a thread waits for. */
static _Atomic uint64_t ended;
static _Atomic uint64_t awaited;
static atomic_bool waiting;

/* "/" is not a library and needs no search: this only waits for the lock. */
static void *wait_for_loader(void *unused) {
    (void)unused;
    (void)next_open()("/", RTLD_LAZY | RTLD_NOLOAD);
    atomic_store(&ended, atomic_load(&awaited));
    atomic_store(&waiting, false);
    return NULL;
}

bool cf_loads_have_ended(void) {
    pthread_t thread;
    const uint64_t loads = atomic_load(&cf_gpu_known.loads); /* before the time of the last one */
    if (is_only_mine() || atomic_load(&ended) == loads) {
        return true;
    }
    if (now() - atomic_load(&loader.begun) > long_enough && !atomic_exchange(&waiting, true)) {
        atomic_store(&awaited, loads);
        if (start(&thread, wait_for_loader)) {
            (void)pthread_detach(thread);
        } else {
            atomic_store(&waiting, false);
        }
    }
    return false;
}
