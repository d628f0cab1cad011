/*
 * Collectives between nodes in which the first `ports` ranks of a node talk to different nodes at
 * once (ported.c). All ranks call them. Each returns an MPI error class.
 */
#ifndef COLLFORGE_PORTED_H_INCLUDED
#define COLLFORGE_PORTED_H_INCLUDED

#include "lane/lane.h"

struct cf_ported {
    struct cf_comm *comm;
    const struct cf_unit *unit;
    int ports;   /* at most min_node_size */
    bool shared; /* joins through shared memory, else by the MPI library */
};

/* from: the node's part, on all its ranks. to: all parts, in node order. unit: bytes. */
int cf_ported_allgather(const struct cf_ported *of, const void *from, void *to,
                        const struct cf_split *parts);
/* from: the node's vector, on all its ranks. to: all vectors, combined in node order. */
int cf_ported_allreduce(const struct cf_ported *of, const void *from, void *to, int count,
                        MPI_Op op);
/* from, to: a block for each rank, and of each rank, in node order (ported_alltoall.c). unit:
 * bytes. */
int cf_ported_alltoall(const struct cf_ported *of, const void *from, void *to, int block);

#endif
