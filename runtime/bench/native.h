/*
 * What the native forms of the collectives of collforge_hybrid.h need beside their arguments. The
 * generated oracle calls them.
 */
#ifndef COLLFORGE_BENCH_NATIVE_H_INCLUDED
#define COLLFORGE_BENCH_NATIVE_H_INCLUDED

#include "base/cf.h"

/* This rank's place in a buffer with a block for each rank, one behind the other. */
struct own {
    int rank;
    void *block; /* where blocks are alike */
    int *displs; /* [size] of all blocks where they are not, else NULL */
};

/* Returns an MPI error class. */
int own_create(struct own *own, const struct cf_args *args);
void own_free(struct own *own);

#endif
