/*
 * The room node: collectives among the ranks of one node, through a shared-memory window.
 *
 * Their semantics are those of component.h, which calls the MPI library. root is a node rank. A
 * split and all counts are equal on all ranks of the node, except those of cf_shared_alltoall.
 * Elements are bytes or a user's type, which may have holes and any lower bound. Every decision
 * follows from the size of the packed element, which is the same on ranks that describe the same
 * elements by different types. Elements larger than CF_SHARED_PIECE go through the MPI library, on
 * all ranks alike.
 *
 * from and to may be the same memory where a rank's contribution and its result share a location
 * (reduce, allreduce, scan, exscan; in scatter, gather and allgather the rank's own part).
 * Otherwise they must not overlap. Each function returns an MPI error class. After an error a rank
 * still takes part, so that the others do not hang. The exception is a rank without memory for
 * elements that go through the MPI library.
 */
#ifndef COLLFORGE_SHARED_H_INCLUDED
#define COLLFORGE_SHARED_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

/*
 * Sets ready to whether the other functions may be called, equal on all ranks of the communicator.
 * The first call is collective over the communicator, not just the node, and allocates the
 * shared-memory windows. Later calls only read a flag.
 */
int cf_shared_ready(struct cf_comm *comm, bool *ready);

/* Bytes that each rank of a node contributes to a communicator's shared-memory window. */
size_t cf_shared_bytes(void);

/* The node ranks from begin to end - 1. */
struct cf_ranks {
    int begin, end;
};
/* Each rank in waiting waits for all ranks in awaited, and then sees what these had stored or seen
 * before the call. Uses flags if the communicator has a shared-memory window and by_barrier is
 * false. Otherwise it calls MPI_Barrier, in which all ranks wait for all. All ranks of the node
 * call it. */
int cf_node_wait(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited,
                 bool by_barrier);

int cf_shared_barrier(struct cf_comm *comm);
/* cf_node_wait, always by flags. */
int cf_shared_meet(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited);

/* Copies are counted per byte below: from or into a user's buffer, by one rank. n is the number of
 * ranks on the node. */

/* The root copies in, every other rank copies out: n copies. */
int cf_shared_bcast(struct cf_comm *comm, void *buffer, int count, const struct cf_unit *unit,
                    int root);
/* The root copies in, the target copies out. The root's own part is copied once, or not at all in
 * place. */
int cf_shared_scatter(struct cf_comm *comm, const void *from, const struct cf_split *split,
                      void *to, const struct cf_unit *unit, int root);
/* The source copies in, the root copies out. The root's own part is treated as in a scatter. */
int cf_shared_gather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                     const struct cf_unit *unit, int root);
/* The source copies in, every other rank copies out: n copies. A rank's own part is treated as in a
 * scatter. */
int cf_shared_allgather(struct cf_comm *comm, const void *from, void *to,
                        const struct cf_split *split, const struct cf_unit *unit);
/* The source copies in, the target copies out. A rank's own part is copied once. send and receive
 * are this rank's own. regular: all counts of all ranks of the node are equal, which saves an
 * exchange of sizes. */
int cf_shared_alltoall(struct cf_comm *comm, const void *from, const struct cf_split *send,
                       void *to, const struct cf_split *receive, const struct cf_unit *unit,
                       bool regular);

/*
 * Reductions. Operands keep the order of the node ranks. They are combined from the last to the
 * first, x0 op (x1 op (x2 op x3)), on every rank, so that all ranks get the same bits. Elements
 * with holes take one more copy per combined operand, to unpack it.
 */

/* Every rank copies in. One rank combines an element, n - 1 times. The root copies out. */
int cf_shared_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op, int root);
/* Every rank copies in. One rank combines an element, n - 1 times. Every rank copies out. Up to
 * CF_SHARED_SMALL bytes (shared_window.h), every rank combines all elements instead. */
int cf_shared_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, MPI_Op op);
/* Every rank copies in all but its own result, unless its operand is in a hybrid piece. That is
 * read in place, so it must not change before the ranks with results have left. A rank's result
 * takes one copy and n - 1 combinations in the result buffer. */
int cf_shared_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                             const struct cf_split *split, const struct cf_unit *unit, MPI_Op op);
/* Every rank but the last copies in. Rank r makes one copy and r combinations in its result. */
int cf_shared_scan(struct cf_comm *comm, const void *from, void *to, int count,
                   const struct cf_unit *unit, MPI_Op op);
/* As cf_shared_scan, over the lower ranks only; to is not touched on node rank 0. */
int cf_shared_exscan(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op);

#endif
