/*
 * The room base: types shared by all rooms, the generated sources and the timing driver, and tools
 * that know nothing of collectives.
 *
 * Nothing here is exported from libcollforge.so.
 */
#ifndef COLLFORGE_CF_H_INCLUDED
#define COLLFORGE_CF_H_INCLUDED

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arguments.h"
#include "collforge.h"

/* ---- the ranks of a communicator ------------------------------------------------------------- */

/*
 * The p ranks divided into k lanes. The rank with node rank m belongs to lane m mod k. Node rank m
 * mod k of its node carries the lane: it communicates for the lane's ranks on that node. k = 1 is
 * the hierarchical decomposition, k = smallest node size the full-lane one (Träff and Hunold, 2020,
 * section III).
 */
struct cf_lanes {
    int k;
    int *order;       /* [p] the ranks sorted by (lane, node, node rank) */
    int *lane_size;   /* [k] ranks on each lane */
    int *share_size;  /* [k * nodes] at [lane * nodes + node]: ranks of that node on that lane, the
                         node's share */
    int *share_begin; /* [k * nodes] index of the share's first rank in order */
    bool identity;    /* order[i] == i */
    struct cf_lanes *next;
};

/* How the consecutive ranks of each node lie on its sockets (hwloc's packages): together, so that
 * the first lanes share a socket and perhaps one rail, or on another socket than the one before. */
enum cf_sockets {
    CF_SOCKETS_ANY, /* not asked; or not bound to one socket each, or otherwise placed */
    CF_SOCKETS_PACKED,
    CF_SOCKETS_CYCLIC
};

/*
 * The layout of a communicator on the nodes. Equal on all its ranks, except rank, node, node_rank
 * and the handles. Nodes are numbered by their lowest rank. Node ranks are in the order of the
 * communicator's ranks.
 */
struct cf_layout {
    int size;
    int rank;
    int nodes;
    int node;
    int node_rank;
    int *node_of;      /* [size]; one allocation with the next two */
    int *node_rank_of; /* [size] */
    int *node_size;    /* [nodes] */
    int min_node_size;
    int max_node_size;
    bool consecutive; /* the ranks of every node are consecutive */
    int threads;      /* threads that may call MPI at once in each process (threads.h) */
    enum cf_sockets sockets;
    MPI_Comm node_comm;     /* the ranks of this node, in rank order */
    MPI_Comm lane_comm;     /* the ranks with this node rank, in node order; MPI_COMM_NULL for node
                               ranks from min_node_size on */
    MPI_Comm order_comm;    /* all ranks, in rank order, for messages; MPI_COMM_NULL where nothing
                               needs it (place/connect.h) */
    struct cf_lanes full;   /* k = min_node_size */
    struct cf_lanes single; /* k = 1 */
    struct cf_lanes *fewer; /* list of the requested ones with other k (cf_lanes_of) */
};

/* ---- temporaries ----------------------------------------------------------------------------- */

enum { CF_TMPBUF_SLOTS = 28 };

/*
 * Scratch memory of one communicator, by slot. It grows as calls need. It is freed with the
 * communicator, or after a call that leaves the process with more than COLLFORGE_MEMORY. MPI allows
 * one collective at a time on a communicator, so one set suffices with MPI_THREAD_MULTIPLE.
 */
struct cf_tmpbufs {
    void *data[CF_TMPBUF_SLOTS];
    size_t capacity[CF_TMPBUF_SLOTS];
};

/* The sizes of an irregular call, which its ranks have exchanged. */
struct cf_exchanged {
    const int *units; /* bytes of the blocks, as in struct cf_blocks */
    int64_t mean;     /* bytes of a block, rounded up */
    int64_t largest;  /* of an all-to-all: total / size, rounded up */
    int64_t total;    /* the largest packed buffer on any rank */
    bool few;         /* whether no temporary of a variant can exceed the limit of memory */
};

/* The state of a communicator for variants. */
struct cf_comm {
    MPI_Comm handle; /* the user's communicator, or that of a hybrid package */
    struct cf_layout layout;
    struct cf_tmpbufs tmpbufs;
    struct cf_shared *shared; /* shared.h; NULL before cf_shared_ready, or when refused */
    bool shared_refused;
    struct cf_piece *pieces;     /* shared_window.h: of a hybrid package; NULL if none */
    struct cf_chunk_set *chunks; /* chunks.h: the requested sets of chunk communicators */
    bool chunks_refused;
    bool order_refused; /* order_comm could not be created */
    /* A predefined op and a type that the MPI library was found to accept together. */
    MPI_Op legal_op;
    MPI_Datatype legal_type;
    struct cf_exchanged exchanged; /* of the current call */
};

/* ---- variants -------------------------------------------------------------------------------- */

/*
 * The facts a choice may read. The MPI standard makes each equal on all ranks of the call. Counts,
 * datatypes, extents and MPI_IN_PLACE are left out on purpose.
 */
struct cf_facts {
    int size;
    int nodes;
    int min_node_size;
    int max_node_size;
    bool consecutive;
    int threads;
    bool commutative;    /* whether the op commutes; true without an op */
    bool users_op;       /* the op is not predefined */
    int64_t bytes;       /* of one block: count x type size as in the call */
    int64_t total_bytes; /* largest packed buffer of the call on any rank: bytes, or size x bytes */
};

/* One parameter of a family and its domain. Values are ints. A symbolic value is an index in
 * symbols. */
struct cf_parameter {
    const char *name;
    const char *const *symbols; /* NULL: numeric */
    const int *values;          /* numeric: the values to search; NULL if symbolic */
    int nvalues;
    int minimum; /* numeric: the smallest legal value; neutral 0 is always legal */
    int maximum;
};

enum { CF_MAX_PARAMETERS = 8 };

/* Not an MPI error class: the call is left to native, on all ranks and before a buffer is touched.
 * A variant returns it for a call that is illegal on this rank. */
enum { CF_DECLINED = -1 };

/* The number of temporaries of each shape that a variant has on some rank (generator/splits.py,
 * SHAPES). */
struct cf_temporaries {
    int vector;      /* all bytes of the call, as a vector or as all blocks */
    int slice;       /* one lane's part of a vector */
    int share;       /* the blocks of a node's ranks on one lane */
    int lane;        /* the blocks of one lane */
    int crossing;    /* all blocks of all pairs from a node's ranks on one lane */
    bool single;     /* always one lane */
    int lanes_above; /* 1 + index of the parameter that bounds the lanes; 0: none */
};

struct cf_variant {
    int collective; /* an enum cf_collective of the generated collectives.h */
    const char *family;
    const char *fingerprint; /* of the generated source; a stored winner must have the same */
    const struct cf_parameter *parameters;
    int nparameters;
    bool (*applicable)(const struct cf_facts *facts);
    /*
     * Collective setup before run, with any arguments. Every rank calls it before each run; NULL if
     * there is none. *ready is equal on all ranks; if false, native serves the call. Returns an MPI
     * error class.
     */
    int (*prepare)(struct cf_comm *comm, const int *parameter, bool *ready);
    int (*run)(const struct cf_args *args, struct cf_comm *comm, const int *parameter);
    struct cf_temporaries temporaries;
    bool only_blocking; /* it waits in ways that no coroutine can (base/coroutine.h) */
    /* [nparameters] The values, as bits, with which an element of a reduction has the same bits in
     * vectors of any length, in every call (generator/order.py). Numbers have all bits. NULL: none
     * has. */
    const uint64_t *fixed_order;
};

static inline int cf_prepare(const struct cf_variant *variant, struct cf_comm *comm,
                             const int *parameter, bool *ready) {
    *ready = true;
    return variant->prepare == NULL ? MPI_SUCCESS : variant->prepare(comm, parameter, ready);
}

/* The size by which a choice is made. The MPI standard, or the exchange, makes it equal on all
 * ranks. */
enum cf_sized {
    CF_SIZED_BLOCK,     /* bytes of one block */
    CF_SIZED_MEAN,      /* bytes of all blocks divided by the number of ranks, rounded up */
    CF_SIZED_EXCHANGED, /* the same, after the ranks have exchanged the sizes of their blocks */
    CF_SIZED_NONE,      /* no data */
};

/* What the size of a block depends on. */
enum cf_varies {
    CF_VARIES_NO,
    CF_VARIES_SOURCE, /* the rank that sends it */
    CF_VARIES_TARGET, /* the rank that receives it */
    CF_VARIES_PAIR,
};

/* How many blocks of a call this rank has. */
struct cf_part {
    int in_blocks;      /* contributed; 0: its send arguments are not read */
    int out_blocks;     /* received; 0: its receive buffer is not written */
    int in_place_block; /* the block of recvbuf with its contribution when in place */
    bool send_in_place; /* it may pass MPI_IN_PLACE as sendbuf */
    bool recv_in_place; /* it may pass MPI_IN_PLACE as recvbuf */
};

/* Limit of a call's largest buffer for variants, because MPI counts are ints. */
enum { CF_MOST_BYTES = INT_MAX };

/* The size of a call without data; and of one whose sizes are not exchanged yet. */
enum { CF_UNSIZED_BYTES = 1 };

/* One collective, generated from its spec; or its nonblocking form, which may have winners of its
 * own. All but those, native and start is as of the collective. */
struct cf_collective_info {
    const char *name;     /* "bcast"; "ibcast" */
    const char *function; /* "MPI_Bcast"; "MPI_Ibcast" */
    int collective; /* its own index; of a form: that of the collective, which has the variants */
    int form;       /* the index of its nonblocking form; 0: none */
    bool rooted;
    bool has_op;
    bool prefix; /* a rank's result combines only the ranks before it */
    bool hybrid; /* of collforge_hybrid.h: called on a package, never instead of an MPI function */
    bool single_buffer;
    enum cf_sized sized;
    enum cf_varies varies;
    bool total_is_size_blocks; /* total_bytes = size x bytes, else total_bytes = bytes */
    int (*native)(const struct cf_args *args); /* PMPI_*; NULL: hybrid or a form */
    int (*start)(const struct cf_args *args, MPI_Request *request); /* PMPI_I* of a form */
    struct cf_part (*part)(int rank, int root, int size); /* NULL: hybrid, or without buffers */
};

/* The generated registry. */
extern const struct cf_collective_info cf_collectives[];
extern const int cf_ncollectives;
extern const struct cf_variant *const cf_variants[];
extern const int cf_nvariants;
extern const char cf_fingerprint[];

/* Why a choice serves a call. */
enum cf_evidence {
    CF_FORCED,   /* by COLLFORGE_FORCE, COLLFORGE_REPRODUCIBLE or the timing driver */
    CF_MEASURED, /* it won on this layout */
    CF_LEARNT,   /* it was expected to win, and jobs have confirmed it */
    CF_EXPECTED, /* nobody measured this layout: it has to prove itself (guard.h) */
};

/* Seconds that a call saves over native, as measured when the winner was decided, and the ends of
 * that interval. All 0: not known. */
struct cf_saving {
    float estimate;
    float least;
    float most;
};

/* A variant with its parameter values: named by a case string, a winner and COLLFORGE_FORCE. */
struct cf_choice {
    const struct cf_variant *variant; /* NULL: native */
    int parameter[CF_MAX_PARAMETERS];
    int64_t measured; /* bytes at which it was measured best, whatever memory it took; 0: none */
    enum cf_evidence evidence;
    struct cf_saving saving; /* only where cf_runtime.counts */
};

/* ---- errors ---- */

/* Returns from a step of a variant with the call's error. Temporaries belong to the communicator,
 * so nothing is freed. */
#define CF_TRY(call)                                                                               \
    do {                                                                                           \
        const int cf_try_error = (call);                                                           \
        if (cf_try_error != MPI_SUCCESS) {                                                         \
            return cf_try_error;                                                                   \
        }                                                                                          \
    } while (0)

/* The same with MPI_ERR_NO_MEM, if memory could not be had. */
#define CF_TRY_MEMORY(pointer) CF_TRY((pointer) == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS)

/* Keeps the first error of several. */
static inline void cf_note(int *first, int err) {
    *first = *first == MPI_SUCCESS ? err : *first;
}

#endif
