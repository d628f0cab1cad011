/* Steps of a reduce whose root combines the vectors of its node (Träff and Hunold, 2020, section
 * III-C). The op commutes. */
#ifndef COLLFORGE_AT_ROOT_H_INCLUDED
#define COLLFORGE_AT_ROOT_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

/* Copies this node rank's slice of a vector. */
int cf_own_slice(struct cf_comm *comm, const void *from, void *to, const struct cf_split *slices,
                 const struct cf_unit *unit);
/*
 * On one node of at least two ranks: combines the ranks' vectors in `to` on the root, without each
 * rank's own slice. The other ranks send theirs in turn, so that the root needs one more vector.
 */
int cf_reduce_rest(struct cf_comm *comm, const void *from, void *to, const struct cf_split *slices,
                   const struct cf_unit *unit, MPI_Op op, int root);

#endif
