/*
 * The room base: the types that all rooms, the generated sources and the timing driver share, and
 * tools that know nothing of collectives.
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

#include "collforge.h"

/* ---- one call ----------------------------------------------------------------------------------
 */

/*
 * The arguments of one collective call, whichever it is. A collective with a single buffer (bcast)
 * has it in recvbuf; one with a single count and datatype (the reductions) has them in both places.
 * Arguments that are not significant on this rank are carried along unread.
 */
struct cf_args {
    const void *sendbuf;
    int sendcount;
    const int *sendcounts; /* [size], in elements; displacements in extents */
    const int *sdispls;
    MPI_Datatype sendtype;
    void *recvbuf;
    int recvcount;
    const int *recvcounts;
    const int *rdispls;
    const MPI_Aint *large_sdispls; /* those of a _c function, instead of the others */
    const MPI_Aint *large_rdispls;
    MPI_Datatype recvtype;
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

/* ---- where the ranks of a communicator are --------------------------------------------------- */

/*
 * The blocks of the p ranks as k lanes see them: the rank with node rank m travels on lane m mod k,
 * carried by the rank of its node with node rank m mod k (itself when m < k). k = 1 is the
 * hierarchical decomposition, k = smallest node size the full-lane one.
 */
struct cf_lanes {
    int k;
    int *order;       /* [p] the ranks sorted by (lane, node, node rank) */
    int *lane_size;   /* [k] ranks on each lane */
    int *share_size;  /* [k * nodes] at [lane * nodes + node]: ranks of that node on that lane */
    int *share_begin; /* [k * nodes] where the ranks of that share begin in order */
    bool identity;    /* order[i] == i */
    struct cf_lanes *next;
};

/*
 * How a communicator lies on the nodes. Alike on all its ranks, except node, node_rank and the
 * handles. Nodes are numbered by their lowest rank; node ranks follow the ranks of the
 * communicator.
 */
struct cf_layout {
    int size;
    int rank;
    int nodes;
    int node;
    int node_rank;
    int *node_of;      /* [size]; the block of memory that the next two are in, too */
    int *node_rank_of; /* [size] */
    int *node_size;    /* [nodes] */
    int min_node_size;
    int max_node_size;
    bool consecutive;       /* every node holds an interval of ranks */
    int threads;            /* that each process may have inside MPI at once (threads.h) */
    MPI_Comm node_comm;     /* the ranks of this node, in rank order */
    MPI_Comm lane_comm;     /* the ranks with this node rank, in node order; MPI_COMM_NULL from
                               min_node_size on */
    MPI_Comm order_comm;    /* all ranks, for messages that put data in the order of the nodes;
                               MPI_COMM_NULL where consecutive */
    struct cf_lanes full;   /* k = min_node_size */
    struct cf_lanes single; /* k = 1 */
    struct cf_lanes *fewer; /* those with a k in between that were asked for (cf_lanes_of) */
};

/* ---- temporaries ----------------------------------------------------------------------------- */

enum { CF_TMPBUF_SLOTS = 28 };

/*
 * Scratch memory of one communicator, by slot. It grows to what calls need and goes with the
 * communicator, or after a call when the process has more than COLLFORGE_MEMORY of it. MPI allows
 * one collective at a time on a communicator, so one set is enough even with MPI_THREAD_MULTIPLE.
 */
struct cf_tmpbufs {
    void *data[CF_TMPBUF_SLOTS];
    size_t capacity[CF_TMPBUF_SLOTS];
};

/* What a variant works with on one communicator. */
struct cf_comm {
    MPI_Comm handle; /* of the user's communicator, or of a package's own */
    struct cf_layout layout;
    struct cf_tmpbufs tmpbufs;
    struct cf_shared *shared; /* shared.h; NULL before cf_shared_ready and where it says no */
    bool shared_refused;
    struct cf_chunk_set *chunks; /* chunks.h: those that were asked for */
    bool chunks_refused;
    bool order_refused; /* no communicator of all ranks could be made */
    /* A predefined op and a type that the MPI library takes together. */
    MPI_Op legal_op;
    MPI_Datatype legal_type;
};

/* ---- variants -------------------------------------------------------------------------------- */

/*
 * The facts a choice may read: the MPI standard makes each of them the same on all ranks of the
 * call. Counts, datatypes, extents and MPI_IN_PLACE are not among them, on purpose.
 */
struct cf_facts {
    int size;
    int nodes;
    int min_node_size;
    int max_node_size;
    bool consecutive;
    int threads;
    bool commutative; /* of the op; true for collectives without one */
    int64_t bytes;    /* of one block: count x type size as in the call */
    int64_t
        total_bytes; /* the largest packed buffer of the call on any rank: bytes, or size x bytes */
};

/* One parameter of a family and its domain. Values are ints; a symbolic value is its index in
 * symbols. */
struct cf_parameter {
    const char *name;
    const char *const *symbols; /* NULL: numeric */
    const int *values;          /* numeric: the domain searched; NULL when symbolic */
    int nvalues;
    int minimum; /* numeric: the smallest legal value; neutral 0 is always legal */
    int maximum;
};

enum { CF_MAX_PARAMETERS = 8 };

/*
 * What a variant returns, instead of an MPI error class, when it leaves the call to native: on all
 * ranks alike, and before it has touched a buffer. Only where sizes are known after an exchange.
 */
enum { CF_DECLINED = -1 };

/* How many temporaries of each shape a variant has on some rank (generator/semantics.py, SHAPES).
 */
struct cf_temporaries {
    int vector;      /* all bytes of the call, as a vector or as all blocks */
    int slice;       /* of a vector, one lane's */
    int share;       /* the blocks of a node's ranks on one lane */
    int lane;        /* the blocks of one lane */
    int crossing;    /* all blocks of a node's ranks on one lane */
    bool single;     /* one lane */
    int lanes_above; /* 1 + the parameter that bounds the lanes; 0: none does */
};

struct cf_variant {
    int collective; /* an enum cf_collective of the generated collectives.h */
    const char *family;
    const char *fingerprint; /* of the generated source; a stored winner must carry the same */
    const struct cf_parameter *parameters;
    int nparameters;
    bool (*applicable)(const struct cf_facts *facts);
    /*
     * What run needs and all ranks have to make together, whatever their arguments: called by each
     * rank before each run, NULL if there is nothing. *ready is alike on all ranks; false: the call
     * is native. Returns an MPI error class.
     */
    int (*prepare)(struct cf_comm *comm, const int *parameter, bool *ready);
    int (*run)(const struct cf_args *args, struct cf_comm *comm, const int *parameter);
    struct cf_temporaries temporaries;
};

static inline int cf_prepare(const struct cf_variant *variant, struct cf_comm *comm,
                             const int *parameter, bool *ready) {
    *ready = true;
    return variant->prepare == NULL ? MPI_SUCCESS : variant->prepare(comm, parameter, ready);
}

/* The bytes by which a choice is made: what the standard makes known alike on all ranks. */
enum cf_sized {
    CF_SIZED_BLOCK, /* of one block */
    CF_SIZED_MEAN,  /* of all blocks over the number of ranks, rounded up */
    CF_SIZED_NONE,  /* not known alike: one choice for every size */
};

/* What the size of a block follows. */
enum cf_varies {
    CF_VARIES_NO,
    CF_VARIES_SOURCE, /* the rank that it comes from */
    CF_VARIES_TARGET, /* the rank that it goes to */
    CF_VARIES_PAIR,
};

/* The blocks of a call that a rank has. */
struct cf_part {
    int in_blocks;      /* that it contributes; 0: its send arguments are not read */
    int out_blocks;     /* that it gets; 0: its receive buffer is not written */
    int in_place_block; /* where in recvbuf its contribution begins when it is in place */
};

/* Of the largest buffer of a call that a variant serves, since MPI counts in ints. */
enum { CF_MOST_BYTES = INT_MAX };

/* What stands for the bytes where they are not known: choices are stored under it. */
enum { CF_UNSIZED_BYTES = 1 };

/* One collective, generated from its spec. */
struct cf_collective_info {
    const char *name;     /* "bcast" */
    const char *function; /* "MPI_Bcast" */
    bool rooted;
    bool has_op;
    bool hybrid; /* of collforge_hybrid.h: called by a package, never in place of MPI's */
    bool single_buffer;
    enum cf_sized sized;
    enum cf_varies varies;
    bool total_is_size_blocks;                 /* total_bytes = size x bytes, else bytes */
    int (*native)(const struct cf_args *args); /* PMPI_*; NULL: hybrid */
    struct cf_part (*part)(int rank, int root, int size); /* NULL: hybrid, or without buffers */
};

/* The generated registry. */
extern const struct cf_collective_info cf_collectives[];
extern const int cf_ncollectives;
extern const struct cf_variant *const cf_variants[];
extern const int cf_nvariants;
extern const char cf_fingerprint[];

/* A variant with the values of its parameters: what a case string, a winner and COLLFORGE_FORCE
 * name. */
struct cf_choice {
    const struct cf_variant *variant; /* NULL: native */
    int parameter[CF_MAX_PARAMETERS];
    int64_t
        measured; /* bytes at which it was found to be best, whatever memory it takes; 0: none */
    bool waits;   /* for the second call that it serves on a communicator (dispatch.c) */
};

/* ---- errors ---- */

/* Leaves a step of a variant with the error of a call. Temporaries stay with the communicator:
 * there is nothing to free. */
#define CF_TRY(call)                                                                               \
    do {                                                                                           \
        const int cf_try_error = (call);                                                           \
        if (cf_try_error != MPI_SUCCESS) {                                                         \
            return cf_try_error;                                                                   \
        }                                                                                          \
    } while (0)

#endif
