/*
 * The room chunks: collectives of all ranks, cut into chunks that are under way at the same time.
 *
 * Each chunk has a communicator of its own, which may order the nodes differently (Mahéo,
 * Carribault, Pérache and Jalby, 2014, sections 2 and 3). The chunks are run by threads or by the
 * MPI library's nonblocking collectives.
 */
#ifndef COLLFORGE_CHUNKS_H_INCLUDED
#define COLLFORGE_CHUNKS_H_INCLUDED

#include "data/unit.h"

enum cf_carrier {
    CF_CARRIER_NONBLOCKING, /* one thread starts all chunks and waits for them */
    CF_CARRIER_EXCHANGE, /* the same, but vectors are exchanged in parts between all ranks, in rank
                            order (chunk_exchange.c) */
    CF_CARRIER_THREADS,  /* blocking calls, one per idle thread at a time; in turn if the caller has
                            no other threads */
};

/*
 * The order of the nodes in chunk c of n, on N nodes. Chunk 0 always has all ranks in rank order.
 * In the others the ranks of a node stay together, in rank order, except in the first and the last
 * kind.
 */
enum cf_node_order {
    CF_NODE_ORDER_KEPT,     /* rank order in all chunks */
    CF_NODE_ORDER_ROTATED,  /* starting at node c: moves the root of a tree */
    CF_NODE_ORDER_SPREAD,   /* starting at node c N / n */
    CF_NODE_ORDER_REVERSED, /* as SPREAD, with every other chunk reversed: reverses a ring */
    CF_NODE_ORDER_STRIDED,  /* as SPREAD, with a stride coprime to N: changes neighbours */
    CF_NODE_ORDER_SHUFFLED, /* shuffled, equal on all ranks */
    CF_NODE_ORDER_RANKS,    /* rank order, starting at rank c p / n of p: may begin inside a node */
};

/* Limit, because each chunk takes one of the MPI library's communicator ids. */
enum { CF_MOST_CHUNKS = 64 };
/* Limit of chunks x ranks, because each rank keeps 16 bytes or more of each. */
enum { CF_MOST_PLACES = 1 << 19 };

static inline int cf_chunk_count(int wanted) {
    return wanted < CF_MOST_CHUNKS ? wanted : CF_MOST_CHUNKS;
}

struct cf_chunks {
    int n; /* from 1 to CF_MOST_CHUNKS */
    enum cf_node_order order;
    enum cf_carrier carrier;
};

/* A chunk's communicator, and scratch of its call. */
struct cf_chunk {
    MPI_Comm comm;
    int *rank_at;  /* [size] rank of the user's communicator, by rank in comm */
    int *place_of; /* [size] the inverse */
    int *counts;   /* [size] scratch, as the other three */
    int *displs;
    int *lined_counts;
    int *lined_displs;
    bool handed_on; /* its second stage is under way */
};

/* The communicators of one struct cf_chunks, for any carrier (way to run the chunks). */
struct cf_chunk_set {
    int n;
    enum cf_node_order order;
    struct cf_chunk_set *next;
    MPI_Request *requests;   /* [n] */
    struct cf_chunk chunk[]; /* [n] */
};

/*
 * Creates the communicators; *ready is false, on all ranks, if one of them could not be created, or
 * for too many chunks and ranks. The first call with this n and order is collective over the
 * communicator. Later calls only search a list. Returns an MPI error class.
 */
int cf_chunks_ready(struct cf_comm *comm, const struct cf_chunks *chunks, bool *ready);
/* The set that cf_chunks_ready created, or NULL. */
struct cf_chunk_set *cf_chunks_find(const struct cf_comm *comm, const struct cf_chunks *chunks);
/* Frees all sets of a communicator. */
void cf_chunks_disconnect(struct cf_comm *comm);

/*
 * The collectives; call them only after cf_chunks_ready. Counts and roots are over all ranks in
 * rank order; count is that of the vector, or of one block. from and to may be the same memory, or
 * from a rank's own block in to, where MPI allows MPI_IN_PLACE, except in alltoall and, with
 * CF_CARRIER_EXCHANGE, reduce_scatter. A user's op must not be called by
 * several threads at once, so such a reduction runs as one chunk.
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
