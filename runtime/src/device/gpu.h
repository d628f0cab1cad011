/*
 * The room device: which buffers are in the memory of a GPU, and their copies in host memory.
 *
 * GPU runtimes that this process has loaded are found by the names of their libraries and asked
 * through functions that are looked up there: no header of theirs is needed to build this, and no
 * GPU. Nothing here loads one.
 */
#ifndef COLLFORGE_GPU_H_INCLUDED
#define COLLFORGE_GPU_H_INCLUDED

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/runtime.h"

/* One runtime. The functions are called after find has said yes, by any thread. */
struct cf_gpu {
    const char *name;
    const char *file; /* of its library: its name without the version */
    /* Looks its functions up; false where one is missing. */
    bool (*find)(void *library);
    /* Whether only its devices can access this address: false for memory that the processor can
     * access as well, and where the runtime does not know the address. */
    bool (*owns)(const void *address);
    /* Copies, which are done when these return; false where the runtime reports an error. */
    bool (*read)(void *host, const void *device, size_t bytes);
    bool (*write)(void *device, const void *host, size_t bytes);
};

CF_HIDDEN extern const struct cf_gpu cf_gpu_cuda;
CF_HIDDEN extern const struct cf_gpu cf_gpu_hip;
CF_HIDDEN extern const struct cf_gpu cf_gpu_ze;

/*
 * Libraries that the process began to load (loads.c), and what was found after how many of them.
 * absent_at is that number where there was no runtime, and no load can have brought one since it
 * was counted.
 */
struct cf_gpu_known {
    _Atomic uint64_t loads;
    _Atomic uint64_t looked_at;
    _Atomic uint64_t absent_at;
};

CF_HIDDEN extern struct cf_gpu_known cf_gpu_known;

/* Looks for runtimes where something was loaded since the last look. Whether there is one, or the
 * next call may meet one that this cannot see yet. */
bool cf_gpu_look(void);

/* Whether there is one, for sure. */
bool cf_gpu_is_here(void);

/* As cf_gpu_look, for two loads where nothing has changed. */
static inline bool cf_gpu_may_be(void) {
    return atomic_load_explicit(&cf_gpu_known.loads, memory_order_relaxed) !=
               atomic_load_explicit(&cf_gpu_known.absent_at, memory_order_relaxed) &&
           cf_gpu_look();
}

/* The same. A load that this does not see yet sees all that the calling thread has stored. */
bool cf_gpu_may_have_come(void);

/* The runtime whose device memory this address is in; NULL: the processor can access it. */
const struct cf_gpu *cf_gpu_of(const void *address);

/* Whether all loads counted by now have ended, as far as that is known (loads.c). */
bool cf_loads_have_ended(void);
/* The library whose file's name begins so, if it is loaded; else NULL. Not counted as a load. It
 * stays until the process ends. */
void *cf_loaded(const char *stem);

#endif
