/*
 * The room device: finds buffers in GPU memory and copies them to host memory and back.
 *
 * GPU runtimes loaded by this process are found by the names of their libraries. Their functions
 * are looked up there, so neither their headers nor a GPU are needed to build this. Nothing here
 * loads a runtime.
 */
#ifndef COLLFORGE_GPU_H_INCLUDED
#define COLLFORGE_GPU_H_INCLUDED

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/runtime.h"

/* One GPU runtime. Any thread may call the other functions after find has returned true. */
struct cf_gpu {
    const char *name;
    const char *file; /* name of its library, without version */
    /* Looks up its functions; false if one is missing. */
    bool (*find)(void *library);
    /* Whether only its devices can access this address. False for memory that the processor can
     * access too, and for addresses unknown to the runtime. */
    bool (*owns)(const void *address);
    /* Synchronous copies; false if the runtime reports an error. */
    bool (*read)(void *host, const void *device, size_t bytes);
    bool (*write)(void *device, const void *host, size_t bytes);
};

CF_HIDDEN extern const struct cf_gpu cf_gpu_cuda;
CF_HIDDEN extern const struct cf_gpu cf_gpu_hip;
CF_HIDDEN extern const struct cf_gpu cf_gpu_ze;

/*
 * loads: how many libraries the process began to load (loads.c). looked_at: loads at the last
 * search. absent_at: loads when a search found no runtime and all those loads had ended.
 */
struct cf_gpu_known {
    _Atomic uint64_t loads;
    _Atomic uint64_t looked_at;
    _Atomic uint64_t absent_at;
};

CF_HIDDEN extern struct cf_gpu_known cf_gpu_known;

/* Searches for runtimes if a library was loaded since the last search. Returns whether there is
 * one, or a library being loaded may bring one. */
bool cf_gpu_look(void);

/* Whether a runtime was found. */
bool cf_gpu_is_here(void);

/* As cf_gpu_look, at the cost of two loads if nothing was loaded. */
static inline bool cf_gpu_may_be(void) {
    return atomic_load_explicit(&cf_gpu_known.loads, memory_order_relaxed) !=
               atomic_load_explicit(&cf_gpu_known.absent_at, memory_order_relaxed) &&
           cf_gpu_look();
}

/* The same with a memory barrier: a library load that it does not see, sees all that the calling
 * thread stored before. */
bool cf_gpu_may_have_come(void);

/* The runtime whose device memory has this address; NULL: the processor can access it. */
const struct cf_gpu *cf_gpu_of(const void *address);

/* Whether all loads counted so far have ended, as far as known (loads.c). */
bool cf_loads_have_ended(void);
/* Whether a loaded library's file name begins with stem. */
bool cf_is_loaded(const char *stem);
/* That library; NULL if there is none. Not counted as a load. Keeps the library loaded until the
 * process ends. Waits for other threads' loads. */
void *cf_loaded(const char *stem);
/* Calls work(NULL), which may wait for loads. Returns after ten seconds while another thread's load
 * does not end; work then ends later. */
void cf_beside_loads(void *(*work)(void *));

#endif
