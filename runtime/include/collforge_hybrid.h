/*
 * Replicated data with one copy per node, for programs that combine MPI with MPI shared memory
 * (MPI+MPI). Source: Zhou, Gracia, Zhou and Schneider (2020), "Collectives in hybrid MPI+MPI code",
 * sections 3.2 and 4.1. Lanes, any placement of ranks and the checks are additions.
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
 * Every function is collective over the package, unless its comment says local. It returns
 * MPI_SUCCESS or an MPI error class, after it has called the error handler of the package's
 * communicator (for an invalid package, that of MPI_COMM_WORLD).
 *
 * Packages must be freed before MPI_Finalize. node_comm and bridge_comm return errors
 * (MPI_ERRORS_RETURN). The library sends messages on these two: the program may call collectives on
 * them, but needs duplicates for messages of its own. comm has the error handler of the
 * communicator from which the package was created.
 *
 * Two accesses of different ranks to the same bytes, one of them a store, must be separated by
 * collforge_hybrid_sync, collforge_hybrid_barrier, or a collective that guarantees it below.
 */
#ifndef COLLFORGE_HYBRID_H_INCLUDED
#define COLLFORGE_HYBRID_H_INCLUDED

#include <mpi.h>

#include "collforge.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A communicator and its layout on the nodes. Read-only. Nodes are numbered by their lowest rank,
 * the ranks of a node by their rank in the communicator, for any placement.
 */
struct collforge_hybrid {
    MPI_Comm comm;        /* a duplicate of the communicator passed to create */
    MPI_Comm node_comm;   /* the ranks of this node, in rank order */
    MPI_Comm bridge_comm; /* the leaders (node rank 0 of each node) in node order; MPI_COMM_NULL on
                             other ranks */
    int size, rank;
    int nodes, node;
    int node_size, node_rank;
    const int *node_of;      /* [size] */
    const int *node_rank_of; /* [size] */
};

/*
 * Creates the package of an intracommunicator: its communicators, translation tables and flags.
 * After an error *hybrid is NULL. MPI_ERR_COMM: an intercommunicator; MPI_ERR_NO_MEM.
 */
COLLFORGE_PUBLIC int collforge_hybrid_create(MPI_Comm comm, struct collforge_hybrid **hybrid);

/*
 * The same with NUMA domains in place of nodes: one copy per domain, near its readers, and a leader
 * in each. hwloc finds the domain that a rank is bound to; unbound ranks count to the first domain
 * of their node. Without hwloc, or on nodes with one domain, this is collforge_hybrid_create.
 */
COLLFORGE_PUBLIC int collforge_hybrid_create_numa(MPI_Comm comm, struct collforge_hybrid **hybrid);

/*
 * Frees the package and its remaining memory, and sets *hybrid to NULL. MPI_ERR_COMM: invalid or
 * already freed.
 */
COLLFORGE_PUBLIC int collforge_hybrid_free(struct collforge_hybrid **hybrid);

/*
 * Allocates one hybrid piece: memory per node, which all ranks of the node may load and store. Each
 * rank's share of the pages lies in its NUMA domain. address is a pointer to a pointer, which
 * receives this process's address of the first byte, aligned to 128 bytes. bytes is the size of the
 * whole piece, equal on all ranks. The contents are undefined. MPI_ERR_SIZE: bytes is negative, or
 * differs between ranks. MPI_ERR_NO_MEM: a node has too little shared memory; its leader reports on
 * standard error how much it has.
 */
COLLFORGE_PUBLIC int collforge_hybrid_alloc(struct collforge_hybrid *hybrid, MPI_Aint bytes,
                                            void *address);

/*
 * Frees a hybrid piece. Waits for the ranks of the node. MPI_ERR_BASE: address is not that of a
 * piece of this package, or was already freed; detected locally, before any wait.
 */
COLLFORGE_PUBLIC int collforge_hybrid_release(struct collforge_hybrid *hybrid, void *address);

/* The address of this rank's block of `bytes` bytes in a hybrid piece with one block per rank, in
 * rank order. Local, without checks. */
static inline void *collforge_hybrid_own(const struct collforge_hybrid *hybrid, void *address,
                                         MPI_Aint bytes) {
    return (char *)address + hybrid->rank * bytes;
}

/* The ranks of the node wait for each other, and then see what all had stored before. Collective
 * over the node only. */
COLLFORGE_PUBLIC int collforge_hybrid_sync(struct collforge_hybrid *hybrid);

/* The same for all ranks of the package. */
COLLFORGE_PUBLIC int collforge_hybrid_barrier(struct collforge_hybrid *hybrid);

/*
 * ---- collectives -----------------------------------------------------------------------------
 *
 * As those of MPI, with the result in one hybrid piece per node. buffer and recvbuf lie in a piece,
 * at the same displacement on all ranks. All other arguments except sendbuf are equal on all ranks,
 * too. Datatypes are dense: basic, or contiguous types of basic ones. All buffers are in host
 * memory, sendbuf included: unlike in MPI's own collectives, GPU buffers are not detected. In a
 * buffer with one block per rank, the blocks are contiguous in rank order, as in
 * collforge_hybrid_own.
 *
 * Every collective, also one without data, guarantees: what the ranks of a node have stored in the
 * piece before their calls is sent (in bcast and scatter only what the root has stored: if other
 * ranks of its node fill the buffer, call collforge_hybrid_sync first); any rank of the node may
 * load and change the result after its own call has returned; no collective overwrites what another
 * rank reads before its own call. In all but bcast and scatter, no rank of the node returns before
 * all ranks of the node have called. In bcast and scatter data comes from the root only, so as in
 * MPI, ranks of its node may return before others have called. A rank's sendbuf is read from its
 * own call on, without waiting for other ranks: what others store there needs a
 * collforge_hybrid_sync first.
 *
 * With COLLFORGE_DB, what runs is the winner of `collforge tune --collective hybrid` for this
 * layout and size; else the first variant.
 *
 * Errors, found before anything is done: MPI_ERR_COMM (no package), MPI_ERR_TYPE (not dense),
 * MPI_ERR_OP, MPI_ERR_ROOT, MPI_ERR_COUNT (negative, or a buffer of more than 2^31 - 1 bytes) and
 * MPI_ERR_BUFFER (not within a piece). Not all arguments that differ between ranks are detected:
 * ranks may then wait forever, as in MPI.
 */

/* The root's count elements to all nodes. Before the root stores the next elements there, the ranks
 * of its node must have finished reading these: call collforge_hybrid_sync. */
COLLFORGE_PUBLIC int collforge_hybrid_bcast(void *buffer, int count, MPI_Datatype datatype,
                                            int root, struct collforge_hybrid *hybrid);

/* Every rank's own block of count elements to all nodes. */
COLLFORGE_PUBLIC int collforge_hybrid_allgather(void *buffer, int count, MPI_Datatype datatype,
                                                struct collforge_hybrid *hybrid);

/* The same with blocks of counts[size] elements, contiguous in rank order. */
COLLFORGE_PUBLIC int collforge_hybrid_allgatherv(void *buffer, const int *counts,
                                                 MPI_Datatype datatype,
                                                 struct collforge_hybrid *hybrid);

/* Every rank's own block to the root's node. buffer has room for all blocks on every node. */
COLLFORGE_PUBLIC int collforge_hybrid_gather(void *buffer, int count, MPI_Datatype datatype,
                                             int root, struct collforge_hybrid *hybrid);

/* The root's blocks, each to its displacement in the piece on the node of its rank. */
COLLFORGE_PUBLIC int collforge_hybrid_scatter(void *buffer, int count, MPI_Datatype datatype,
                                              int root, struct collforge_hybrid *hybrid);

/* Combines the ranks' vectors in rank order; the result is on all nodes, or on the root's. sendbuf
 * may be any memory; from a hybrid piece it need not be copied. sendbuf and recvbuf must not
 * overlap. */
COLLFORGE_PUBLIC int collforge_hybrid_allreduce(const void *sendbuf, void *recvbuf, int count,
                                                MPI_Datatype datatype, MPI_Op op,
                                                struct collforge_hybrid *hybrid);
COLLFORGE_PUBLIC int collforge_hybrid_reduce(const void *sendbuf, void *recvbuf, int count,
                                             MPI_Datatype datatype, MPI_Op op, int root,
                                             struct collforge_hybrid *hybrid);

/* The same with one block of count elements per rank in sendbuf. The combined blocks of a node's
 * ranks are stored at their displacements in its piece. */
COLLFORGE_PUBLIC int collforge_hybrid_reduce_scatter_block(const void *sendbuf, void *recvbuf,
                                                           int count, MPI_Datatype datatype,
                                                           MPI_Op op,
                                                           struct collforge_hybrid *hybrid);

/*
 * ---- persistent forms ------------------------------------------------------------------------
 *
 * For a call made many times with the same arguments. The _init function of the collective, which
 * is local, checks the call and chooses its variant. Each start runs it, and returns when this
 * rank's part is done. Errors are those of the collective; MPI_ERR_REQUEST: an invalid request, or
 * its package is freed. A request must be freed before the piece it works in. If the collective has
 * an op, the request must also be freed before that op and its datatype; otherwise the datatype may
 * be freed at once.
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
