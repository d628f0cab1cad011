/* The send or receive arguments of a call. */
#ifndef COLLFORGE_SIDE_H_INCLUDED
#define COLLFORGE_SIDE_H_INCLUDED

#include <stddef.h>

#include "base/cf.h"

/* One side of a call as the user passed it: count elements per block, or counts and displs. */
struct cf_side {
    void *buffer;
    int count;
    const int *counts;            /* NULL: count elements in each block */
    const int *displs;            /* in extents */
    const MPI_Aint *large_displs; /* of a _c function, instead of displs */
    MPI_Datatype type;
};

static inline struct cf_side cf_send_side(const struct cf_args *args) {
    return (struct cf_side){(void *)args->sendbuf, args->sendcount,     args->sendcounts,
                            args->sdispls,         args->large_sdispls, args->sendtype};
}

static inline struct cf_side cf_recv_side(const struct cf_args *args) {
    return (struct cf_side){args->recvbuf, args->recvcount,     args->recvcounts,
                            args->rdispls, args->large_rdispls, args->recvtype};
}

/* Elements in block index. */
static inline int cf_side_count(const struct cf_side *side, int index) {
    return side->counts == NULL ? side->count : side->counts[index];
}

/* The displacement of block index, in extents. */
static inline MPI_Aint cf_side_begin(const struct cf_side *side, int index) {
    if (side->counts == NULL) {
        return (MPI_Aint)index * side->count;
    }
    return side->large_displs != NULL ? side->large_displs[index] : side->displs[index];
}

#endif
