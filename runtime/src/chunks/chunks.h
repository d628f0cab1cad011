/*
 * The room chunks: collectives of all ranks in chunks that are under way at once.
 *
 * The data is cut, and each chunk has a communicator of its own, in which the nodes may stand in
 * another order (papers/thread-split-rank-shift, sections 2 and 3). Threads carry them, or the MPI
 * library's nonblocking collectives do.
 */
#ifndef COLLFORGE_CHUNKS_H_INCLUDED
#define COLLFORGE_CHUNKS_H_INCLUDED

#include "data/unit.h"

enum cf_carrier {
    CF_CARRIER_NONBLOCKING, /* one thread starts all chunks and waits for them */
    CF_CARRIER_EXCHANGE, /* the same; vectors in parts from every rank to every other at once, with
                            all ranks in their order (chunk_exchange.c) */
    CF_CARRIER_THREADS,  /* blocking calls, as many at once as there are idle threads; one after
                            the other where there is but the caller */
};

/*
 * In which order the nodes stand in chunk c of n, on N nodes. The ranks of a node stay together, in
 * their order. In chunk 0 all ranks are as they are, whatever the order of the others.
 */
enum cf_node_order {
    CF_NODE_ORDER_KEPT,     /* all ranks as they are in all chunks */
    CF_NODE_ORDER_ROTATED,  /* from node c on: a tree has its root elsewhere */
    CF_NODE_ORDER_SPREAD,   /* from node c N / n on */
    CF_NODE_ORDER_REVERSED, /* the same, every other chunk backwards: a ring runs the other way */
    CF_NODE_ORDER_STRIDED,  /* the same, by steps that are coprime to N: other neighbours */
    CF_NODE_ORDER_SHUFFLED, /* shuffled, alike on all ranks */
};

/* Each chunk takes one of the MPI library's numbers for communicators. */
enum { CF_MOST_CHUNKS = 64 };

static inline int cf_chunk_count(int wanted) {
    return wanted < CF_MOST_CHUNKS ? wanted : CF_MOST_CHUNKS;
}

struct cf_chunks {
    int n; /* from 1 to CF_MOST_CHUNKS */
    enum cf_node_order order;
    enum cf_carrier carrier;
};

/* A chunk's communicator, and what its call works with. */
struct cf_chunk {
    MPI_Comm comm;
    int *rank_at;  /* [size] who stands where in comm */
    int *place_of; /* [size] the inverse */
    int *counts;   /* [size] scratch, as the other three */
    int *displs;
    int *lined_counts;
    int *lined_displs;
    bool handed_on; /* its second stage is under way */
};

/* The communicators of one struct cf_chunks, whichever way they are carried. */
struct cf_chunk_set {
    int n;
    enum cf_node_order order;
    struct cf_chunk_set *next;
    MPI_Request *requests;   /* [n] */
    struct cf_chunk chunk[]; /* [n] */
};

/*
 * Makes the communicators; *ready is false, on all ranks alike, where one of them could not be had.
 * Collective at the first call with such n and
 * order on a communicator; a look at a list afterwards. Returns an MPI error class.
 */
int cf_chunks_ready(struct cf_comm *comm, const struct cf_chunks *chunks, bool *ready);
/* What ready has made, or NULL. */
struct cf_chunk_set *cf_chunks_find(const struct cf_comm *comm, const struct cf_chunks *chunks);
/* Frees all sets of a communicator. */
void cf_chunks_disconnect(struct cf_comm *comm);

/*
 * The collectives, once cf_chunks_ready has said so. Counts and roots as in those of variant.h,
 * over all ranks in rank order; count is that of the vector, or of one block. from and to may be
 * the same memory, or a rank's own block of the other, where MPI has a form in place. An op that is
 * the user's own is not called by several threads at once: such a reduction runs as one chunk.
 */
int cf_chunks_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit,
                    int root, const struct cf_chunks *chunks);
int cf_chunks_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op, int root,
                     const struct cf_chunks *chunks);
int cf_chunks_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, MPI_Op op, const struct cf_chunks *chunks);
int cf_chunks_allgather(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, const struct cf_chunks *chunks);
int cf_chunks_alltoall(struct cf_comm *comm, const void *from, void *to, int count,
                       const struct cf_unit *unit, const struct cf_chunks *chunks);
int cf_chunks_reduce_scatter(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit, MPI_Op op, const struct cf_chunks *chunks);

/* The same for CF_CARRIER_EXCHANGE, with a predefined op. */
int cf_exchange_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit,
                      int root, const struct cf_chunks *chunks);
int cf_exchange_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                       const struct cf_unit *unit, MPI_Op op, int root,
                       const struct cf_chunks *chunks);
int cf_exchange_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                          const struct cf_unit *unit, MPI_Op op, const struct cf_chunks *chunks);
int cf_exchange_reduce_scatter(struct cf_comm *comm, const void *from, void *to, int count,
                               const struct cf_unit *unit, MPI_Op op,
                               const struct cf_chunks *chunks);

#endif
