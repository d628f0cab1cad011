/*
 * The room node: collectives among the ranks of one node through a window of shared memory.
 *
 * They mean what those of component.h, the MPI library's own, do. root is a node rank; a split and
 * all counts are alike on all ranks of the node, except those of cf_shared_alltoall. Units are
 * bytes or a user's type with holes and any lower bound; every decision follows from the size of
 * the packed element, which ranks that describe the same elements by different types have in
 * common. Elements too large for the window's pieces go through the MPI library, on all ranks
 * alike.
 *
 * from and to may be the same memory where a rank's contribution and its result have the same place
 * (reduce, allreduce, scan, exscan; scatter, gather and allgather: a rank's own part), else they
 * must not overlap. Each returns an MPI error class; an error on one rank keeps no other waiting,
 * unless it has no memory for what goes through the MPI library.
 */
#ifndef COLLFORGE_SHARED_H_INCLUDED
#define COLLFORGE_SHARED_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

/*
 * Whether the others may be called, alike on all ranks of the communicator. Collective over the
 * communicator (not just the node) at its first call, which allocates the windows; a look at a flag
 * afterwards.
 */
int cf_shared_ready(struct cf_comm *comm, bool *ready);

/* The bytes that each rank of a node contributes to a communicator's window. */
size_t cf_shared_bytes(void);

/* Some ranks of a node: begin to end - 1, as node ranks. */
struct cf_ranks {
    int begin, end;
};
/* Each of some ranks of the node waits for all of others, and sees what these have stored or seen
 * before: by flags where there are such, or by MPI_Barrier, in which all wait for all. All ranks of
 * the node call it. */
int cf_node_wait(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited,
                 bool by_barrier);

int cf_shared_barrier(struct cf_comm *comm);
/* cf_node_wait by flags. */
int cf_shared_meet(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited);

/* "A byte is copied": from or into a user's buffer by one rank. */

/* In by the root, out by every other rank: 1 + (n - 1) copies. */
int cf_shared_bcast(struct cf_comm *comm, void *buffer, int count, const struct cf_unit *unit,
                    int root);
/* In by the root, out by its target. The root's own part: once, or not at all where it stands. */
int cf_shared_scatter(struct cf_comm *comm, const void *from, const struct cf_split *split,
                      void *to, const struct cf_unit *unit, int root);
/* In by its source, out by the root. The root's own part as in a scatter. */
int cf_shared_gather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                     const struct cf_unit *unit, int root);
/* In by its source, out by every other rank: 1 + (n - 1) copies. The own part as in a scatter. */
int cf_shared_allgather(struct cf_comm *comm, const void *from, void *to,
                        const struct cf_split *split, const struct cf_unit *unit);
/* In by its source, out by its target. The own part once. send and receive are this rank's own;
 * regular: all counts of all ranks of the node are equal, which saves an exchange of sizes. */
int cf_shared_alltoall(struct cf_comm *comm, const void *from, const struct cf_split *send,
                       void *to, const struct cf_split *receive, const struct cf_unit *unit,
                       bool regular);

/*
 * Reductions. Operands keep the order of the node ranks; they are combined from the last to the
 * first, x0 op (x1 op (x2 op x3)), everywhere alike, so that all ranks get the same bits. Elements
 * with holes take one more copy, out of the packed form, per operand that is combined.
 */

/* Copied in by every rank, combined n - 1 times by one of them, copied out by the root. */
int cf_shared_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op, int root);
/* Copied in by every rank, combined n - 1 times by one of them, copied out by every rank. Up to
 * CF_SHARED_SMALL bytes (shared_window.h): in by every rank, combined by every rank. */
int cf_shared_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, MPI_Op op);
/* Copied in by every rank but for its own result; one copy and n - 1 combinations, into the
 * result's place. */
int cf_shared_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                             const struct cf_split *split, const struct cf_unit *unit, MPI_Op op);
/* Copied in by every rank but the last; one copy and r combinations on rank r, into the result's
 * place. */
int cf_shared_scan(struct cf_comm *comm, const void *from, void *to, int count,
                   const struct cf_unit *unit, MPI_Op op);
/* The same over the ranks before; to is not touched on node rank 0. */
int cf_shared_exscan(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op);

#endif
