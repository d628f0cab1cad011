#include "device/gpu.h"

#include <pthread.h>

/* UINT64_MAX: never looked. */
struct cf_gpu_known cf_gpu_known = {.looked_at = UINT64_MAX, .absent_at = UINT64_MAX};

static const struct cf_gpu *const runtimes[] = {&cf_gpu_cuda, &cf_gpu_hip, &cf_gpu_ze};

enum { RUNTIMES = sizeof runtimes / sizeof runtimes[0] };

static atomic_bool found[RUNTIMES];

static bool find(const struct cf_gpu *gpu) {
    void *library = cf_loaded(gpu->file);
    return library != NULL && gpu->find(library);
}

static bool found_any(void) {
    bool any = false;
    for (int i = 0; i < RUNTIMES; i++) {
        any = any || atomic_load(&found[i]);
    }
    return any;
}

/* A runtime once found remains, because its library is never unloaded. */
static void *find_all(void *unused) {
    for (int i = 0; i < RUNTIMES; i++) {
        if (!atomic_load(&found[i]) && find(runtimes[i])) {
            atomic_store(&found[i], true);
        }
    }
    return unused;
}

static bool look(uint64_t loads) {
    const bool ended = cf_loads_have_ended(); /* must be read before the search */
    bool more = false;
    for (int i = 0; i < RUNTIMES; i++) {
        more = more || (!atomic_load(&found[i]) && cf_is_loaded(runtimes[i]->file));
    }
    if (more) {
        cf_beside_loads(find_all);
    }
    const bool any = found_any();
    if (ended) {
        atomic_store(&cf_gpu_known.looked_at, loads);
    }
    if (ended && !any) {
        atomic_store(&cf_gpu_known.absent_at, loads);
    }
    return any || !ended;
}

bool cf_gpu_look(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    /* Must be read before the search: later loads do not count as seen. */
    const uint64_t loads = atomic_load(&cf_gpu_known.loads);
    if (atomic_load(&cf_gpu_known.looked_at) == loads) {
        return atomic_load(&cf_gpu_known.absent_at) != loads;
    }
    (void)pthread_mutex_lock(&mutex);
    const bool may_be = look(loads);
    (void)pthread_mutex_unlock(&mutex);
    return may_be;
}

bool cf_gpu_is_here(void) {
    (void)cf_gpu_look();
    return found_any();
}

/* Of two atomic changes of one variable, the second sees all that was stored before the first. */
bool cf_gpu_may_have_come(void) {
    (void)atomic_fetch_add(&cf_gpu_known.loads, 0);
    return cf_gpu_may_be();
}

const struct cf_gpu *cf_gpu_of(const void *address) {
    for (int i = 0; i < RUNTIMES; i++) {
        if (atomic_load(&found[i]) && runtimes[i]->owns(address)) {
            return runtimes[i];
        }
    }
    return NULL;
}
