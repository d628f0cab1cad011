/*
 * Arguments that the native forms of hybrid collectives need in addition. Called by the generated
 * oracle.
 */
#ifndef COLLFORGE_BENCH_NATIVE_H_INCLUDED
#define COLLFORGE_BENCH_NATIVE_H_INCLUDED

#include "base/cf.h"

/* This rank's own block in a buffer with one block per rank, contiguous. */
struct own {
    int rank;
    void *block; /* if all blocks have the same size */
    int *displs; /* [size] of all blocks if sizes differ, else NULL */
};

/* Returns an MPI error class. */
int own_create(struct own *own, const struct cf_args *args);
void own_free(struct own *own);

#endif
