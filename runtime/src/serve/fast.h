/*
 * The fast path to native, inlined into the wrappers. It is the whole overhead of a native call: no
 * function call, no stack frame, no arithmetic. It uses only what the last call found out. Anything
 * else takes the slow path, cf_choose.
 */
#ifndef COLLFORGE_FAST_H_INCLUDED
#define COLLFORGE_FAST_H_INCLUDED

#include "serve/dispatch.h"

/* Without it the compiler emits calls, and saves all arguments of the collective around them. */
#define CF_INLINE __attribute__((always_inline)) static inline

/* NULL if the communicator is new, or shares its table slot with another. */
CF_INLINE const struct cf_state *cf_glance(MPI_Comm comm) {
    uintptr_t found;
    return cf_handle_glance(&cf_states, (uintptr_t)comm, &found) ? (const struct cf_state *)found
                                                                 : NULL;
}

CF_INLINE bool cf_spans(const struct cf_native *native, MPI_Datatype type, int64_t amount) {
    return type == native->type && (uint64_t)amount - (uint64_t)native->least <= native->span;
}

CF_INLINE int64_t cf_sum(const int *counts, int ranks) {
    int64_t sum = 0;
#pragma GCC unroll 4
    for (int rank = 0; rank < ranks; rank++) {
        sum += counts[rank];
    }
    return sum;
}

/* The fast forms of the three cf_choose functions. true only if these would return NULL. */
CF_INLINE bool cf_is_native(int collective, MPI_Comm comm, int count, MPI_Datatype type) {
    if (cf_runtime.mode == CF_MODE_OFF) {
        return true;
    }
    const struct cf_state *state = cf_glance(comm);
    return state != NULL &&
           (cf_spans(&state->last[collective].native, type, count) || state == cf_untuned);
}

CF_INLINE bool cf_is_native_mean(int collective, MPI_Comm comm, const int *counts,
                                 MPI_Datatype type) {
    if (cf_runtime.mode == CF_MODE_OFF) {
        return true;
    }
    const struct cf_state *state = counts == NULL ? NULL : cf_glance(comm);
    return state != NULL && (cf_spans(&state->last[collective].native, type,
                                      cf_sum(counts, state->comm.layout.size)) ||
                             state == cf_untuned);
}

CF_INLINE bool cf_is_native_unsized(int collective, MPI_Comm comm) {
    return cf_is_native(collective, comm, 0, MPI_DATATYPE_NULL);
}

#endif
