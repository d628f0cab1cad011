/*
 * Replicated data once per node, for programs of MPI and MPI shared memory (MPI+MPI).
 * Source: papers/hybrid-mpi-plus-mpi, sections 3.2 and 4.1; lanes, any placement of ranks and the
 * checks are ours.
 *
 *   struct collforge_hybrid *hybrid = NULL;
 *   double *all = NULL;
 *   collforge_hybrid_create(comm, &hybrid);
 *   collforge_hybrid_alloc(hybrid, n * sizeof(double), &all);   one vector per node, not per rank
 *   if (hybrid->node_rank == 0) read_input(all, n);
 *   collforge_hybrid_sync(hybrid);                              now all of the node may read it
 *   ...
 *   collforge_hybrid_free(&hybrid);                             and its memory
 *
 * Every function is collective over the package, unless it says that it is local, and returns
 * MPI_SUCCESS or an MPI error class, which has met the error handler of the package's communicator
 * before (that of MPI_COMM_WORLD where the package is not one).
 *
 * Packages are to be freed before MPI_Finalize. node_comm and bridge_comm return errors
 * (MPI_ERRORS_RETURN), comm has the handler of the communicator that the package was made from.
 *
 * Between two accesses of different ranks to the same bytes, one of them a store, there must be a
 * collforge_hybrid_sync or collforge_hybrid_barrier; or a collective that says so of what it works
 * in.
 */
#ifndef COLLFORGE_HYBRID_H_INCLUDED
#define COLLFORGE_HYBRID_H_INCLUDED

#include <mpi.h>

#include "collforge.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A communicator as it lies on the nodes. To be read only. Nodes are numbered by their lowest rank,
 * the ranks of a node by their rank in the communicator, whatever the placement.
 */
struct collforge_hybrid {
    MPI_Comm comm;        /* a duplicate of the one that the package was made from */
    MPI_Comm node_comm;   /* the ranks of this node, in rank order */
    MPI_Comm bridge_comm; /* the leaders, node rank 0 of each node, in node order; MPI_COMM_NULL on
                             the other ranks */
    int size, rank;
    int nodes, node;
    int node_size, node_rank;
    const int *node_of;      /* [size] */
    const int *node_rank_of; /* [size] */
};

/*
 * Makes the package of an intracommunicator: its communicators, translation tables and flags.
 * *hybrid is NULL after an error. MPI_ERR_COMM: an intercommunicator; MPI_ERR_NO_MEM.
 */
COLLFORGE_PUBLIC int collforge_hybrid_create(MPI_Comm comm, struct collforge_hybrid **hybrid);

/*
 * The same with a NUMA domain in the place of a node: one copy per domain, near all that read it,
 * and a leader in each. Of ranks that are bound to one; those that are not stay together with those
 * of their node's first domain. hwloc tells; without it, or on nodes of one domain, this is
 * collforge_hybrid_create.
 */
COLLFORGE_PUBLIC int collforge_hybrid_create_numa(MPI_Comm comm, struct collforge_hybrid **hybrid);

/*
 * Frees the package and all memory that it still has, and sets *hybrid to NULL. MPI_ERR_COMM: it is
 * none, or freed already.
 */
COLLFORGE_PUBLIC int collforge_hybrid_free(struct collforge_hybrid **hybrid);

/*
 * One piece of memory per node, which all its ranks may load from and store to; each rank's share
 * of the pages lies in its own NUMA domain. address is that of a pointer, which gets this process's
 * address of the first byte, aligned to 128 bytes. bytes: of the whole piece, alike on all ranks.
 * The contents are undefined. MPI_ERR_SIZE: negative, or not alike; MPI_ERR_NO_MEM: a node has not
 * as much shared memory, a message on its leader's standard error says how much it has.
 */
COLLFORGE_PUBLIC int collforge_hybrid_alloc(struct collforge_hybrid *hybrid, MPI_Aint bytes,
                                            void *address);

/*
 * Frees a piece. Waits for the ranks of the node. MPI_ERR_BASE: address is not that of a piece of
 * this package, or was freed already; found locally, before anything waits.
 */
COLLFORGE_PUBLIC int collforge_hybrid_release(struct collforge_hybrid *hybrid, void *address);

/* Where this rank's block of so many bytes stands in a piece with one for each rank, in rank order.
 * Local, without a check. */
static inline void *collforge_hybrid_own(const struct collforge_hybrid *hybrid, void *address,
                                         MPI_Aint bytes) {
    return (char *)address + hybrid->rank * bytes;
}

/* The ranks of the node wait for each other; each then sees what all have stored before. Collective
 * over the node alone. */
COLLFORGE_PUBLIC int collforge_hybrid_sync(struct collforge_hybrid *hybrid);

/* The same for all ranks. */
COLLFORGE_PUBLIC int collforge_hybrid_barrier(struct collforge_hybrid *hybrid);

/*
 * ---- collectives -----------------------------------------------------------------------------
 *
 * Those of MPI with their result in one piece per node. buffer and recvbuf are in a piece, at the
 * same place of it on all ranks; all other arguments but sendbuf are alike on all ranks, too. Data
 * types are dense: basic ones, or contiguous ones made of them. All buffers are host memory,
 * sendbuf too: that of a GPU is not looked for, as it is in MPI's own collectives. In a buffer with
 * a block for each rank these follow each other in rank order; a rank's own is where
 * collforge_hybrid_own says.
 *
 * Of each, also of one of no data: what a rank of the node has stored in the piece before its call
 * is sent, the result may be loaded and changed by any rank of the node once its call has returned,
 * and no collective overwrites what another rank was reading before its own call. In all but bcast
 * and scatter, no rank of the node returns before all have called; in those two data comes from the
 * root alone, and as in MPI ranks of its node may return before others have called. A rank's
 * sendbuf is read from its own call on, without waiting for others: what these store there needs a
 * collforge_hybrid_sync before. What runs on the nodes and between
 * them is the winner of `collforge tune --collective hybrid` for this layout and size, where the
 * program runs with COLLFORGE_DB; else it is the first variant.
 *
 * Errors, before anything was done: MPI_ERR_COMM (no package), MPI_ERR_TYPE (not dense),
 * MPI_ERR_OP, MPI_ERR_ROOT, MPI_ERR_COUNT (negative, or a buffer of more than 2^31 - 1 bytes) and
 * MPI_ERR_BUFFER (not within a piece). Arguments that differ between ranks are not all found: ranks
 * may then wait for each other forever, as in MPI.
 */

/* The root's count elements to all nodes. Before the root stores the next ones there, the ranks of
 * its node have to be done with these: a collforge_hybrid_sync. */
COLLFORGE_PUBLIC int collforge_hybrid_bcast(void *buffer, int count, MPI_Datatype datatype,
                                            int root, struct collforge_hybrid *hybrid);

/* Every rank's own block, count elements of them, to all nodes. */
COLLFORGE_PUBLIC int collforge_hybrid_allgather(void *buffer, int count, MPI_Datatype datatype,
                                                struct collforge_hybrid *hybrid);

/* The same with blocks of counts[size] elements; own blocks begin where the ones before end. */
COLLFORGE_PUBLIC int collforge_hybrid_allgatherv(void *buffer, const int *counts,
                                                 MPI_Datatype datatype,
                                                 struct collforge_hybrid *hybrid);

/* Every rank's own block to the root's node. buffer has room for all blocks on every node. */
COLLFORGE_PUBLIC int collforge_hybrid_gather(void *buffer, int count, MPI_Datatype datatype,
                                             int root, struct collforge_hybrid *hybrid);

/* The root's blocks, each to the node of its rank and its place there. */
COLLFORGE_PUBLIC int collforge_hybrid_scatter(void *buffer, int count, MPI_Datatype datatype,
                                              int root, struct collforge_hybrid *hybrid);

/* The ranks' vectors, each in sendbuf, private memory or not, combined in rank order: on all nodes,
 * or on the root's. sendbuf and recvbuf do not overlap. */
COLLFORGE_PUBLIC int collforge_hybrid_allreduce(const void *sendbuf, void *recvbuf, int count,
                                                MPI_Datatype datatype, MPI_Op op,
                                                struct collforge_hybrid *hybrid);
COLLFORGE_PUBLIC int collforge_hybrid_reduce(const void *sendbuf, void *recvbuf, int count,
                                             MPI_Datatype datatype, MPI_Op op, int root,
                                             struct collforge_hybrid *hybrid);

/* The same with a block of count elements for each rank in sendbuf; the combined blocks of a node's
 * ranks go to their places in its piece. */
COLLFORGE_PUBLIC int collforge_hybrid_reduce_scatter_block(const void *sendbuf, void *recvbuf,
                                                           int count, MPI_Datatype datatype,
                                                           MPI_Op op,
                                                           struct collforge_hybrid *hybrid);

/*
 * ---- persistent forms ------------------------------------------------------------------------
 *
 * A call that is made many times with the same arguments: checked and chosen once, by the _init of
 * its collective, which is local; every start runs it and returns when this rank's part is done.
 * Errors are those of the collective; MPI_ERR_REQUEST: no request, or its package is freed. The
 * request is to be freed before the piece that it works in. Where the collective has an op, the
 * request is also to be freed before that op and its datatype; else the datatype may be freed at
 * once.
 */
struct collforge_hybrid_request;

/* Collective over the package. */
COLLFORGE_PUBLIC int collforge_hybrid_start(struct collforge_hybrid_request *request);

/* Local; sets *request to NULL. */
COLLFORGE_PUBLIC int collforge_hybrid_request_free(struct collforge_hybrid_request **request);

COLLFORGE_PUBLIC int collforge_hybrid_bcast_init(void *buffer, int count, MPI_Datatype datatype,
                                                 int root, struct collforge_hybrid *hybrid,
                                                 struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_allgather_init(void *buffer, int count, MPI_Datatype datatype,
                                                     struct collforge_hybrid *hybrid,
                                                     struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_allgatherv_init(void *buffer, const int *counts,
                                                      MPI_Datatype datatype,
                                                      struct collforge_hybrid *hybrid,
                                                      struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_gather_init(void *buffer, int count, MPI_Datatype datatype,
                                                  int root, struct collforge_hybrid *hybrid,
                                                  struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_scatter_init(void *buffer, int count, MPI_Datatype datatype,
                                                   int root, struct collforge_hybrid *hybrid,
                                                   struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_allreduce_init(const void *sendbuf, void *recvbuf, int count,
                                                     MPI_Datatype datatype, MPI_Op op,
                                                     struct collforge_hybrid *hybrid,
                                                     struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_reduce_init(const void *sendbuf, void *recvbuf, int count,
                                                  MPI_Datatype datatype, MPI_Op op, int root,
                                                  struct collforge_hybrid *hybrid,
                                                  struct collforge_hybrid_request **request);
COLLFORGE_PUBLIC int collforge_hybrid_reduce_scatter_block_init(
    const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
    struct collforge_hybrid *hybrid, struct collforge_hybrid_request **request);

#ifdef __cplusplus
}
#endif

#endif
