/*
 * The room lane: collectives over a lane, one rank of each node, by messages, and their overlap
 * with the steps on the node.
 */
#ifndef COLLFORGE_LANE_H_INCLUDED
#define COLLFORGE_LANE_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

/* ---- segments of a pipeline ------------------------------------------------------------------ */

/* Units in a segment of about this many bytes: at least one. */
static inline int cf_segment_units(int segment_bytes, const struct cf_unit *unit) {
    const int units = unit->size > 0 ? segment_bytes / unit->size : 1;
    return units > 0 ? units : 1;
}

static inline int cf_segments(int count, int segment) {
    return count / segment + (count % segment != 0);
}

/* Of `units` units from number first on, those that a buffer of count has. */
static inline int cf_units_within(int first, int units, int count) {
    const int rest = count - first;
    return rest <= 0 ? 0 : rest < units ? rest : units;
}

/* Units of segment number index. */
static inline int cf_segment_count(int index, int segment, int count) {
    return cf_units_within(index * segment, segment, count);
}

/* The messages that an algorithm may have under way in one direction; a stored window may be any
 * number. */
enum { CF_MAX_WINDOW = 64 };

static inline int cf_window(int window) {
    return window < 1 ? 1 : window > CF_MAX_WINDOW ? CF_MAX_WINDOW : window;
}

/* Units of the segments under way at once, of a buffer of count units. */
static inline int cf_window_units(int window, int segment, int count) {
    const MPI_Aint units = (MPI_Aint)window * segment;
    return units < count ? (int)units : count;
}

static inline void cf_requests_clear(MPI_Request *requests, int n) {
    for (int i = 0; i < n; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
}

/*
 * ---- messages (message.c) --------------------------------------------------------------------
 *
 * As MPI's calls of these names, except that a rank that waits for long lets others run. Each
 * returns an MPI error class.
 */

int cf_wait(MPI_Request *request);

/*
 * Waits for all of n requests each way, and returns err or else the first error of theirs. Every
 * way out of an algorithm leads through it: nothing may touch the memory of a call that is over,
 * which is the program's where its error handler returns. After an error receives are taken back
 * first, since what they are for may never be sent. Sends cannot be taken back: the ranks that
 * they are for ask for them if they can still ask for anything, so after ten seconds, as where
 * these ranks have failed, too, they are left. NULL: none this way.
 */
int cf_requests_end(MPI_Request *receive, MPI_Request *send, int n, int err);
/* The same for sends alone, without an error so far. */
int cf_requests_wait(MPI_Request *send, int n);

/* CF_TRY while requests are under way. */
#define CF_TRY_OR_END(receive, send, n, call)                                                      \
    do {                                                                                           \
        const int cf_try_error = (call);                                                           \
        if (cf_try_error != MPI_SUCCESS) {                                                         \
            return cf_requests_end(receive, send, n, cf_try_error);                                \
        }                                                                                          \
    } while (0)

/* The same in a function that has a window of them each way, under these names. */
#define CF_TRY_IN_WINDOW(call) CF_TRY_OR_END(receive, send, window, call)

int cf_send(const void *data, int count, const struct cf_unit *unit, int target, int tag,
            MPI_Comm comm);
int cf_receive(void *data, int count, const struct cf_unit *unit, int source, int tag,
               MPI_Comm comm);

/* count units, to a rank or from it. */
struct cf_message {
    void *data;
    int count;
    int rank;
};

/* Both at once, with tag 0. */
int cf_send_receive(struct cf_message out, struct cf_message in, const struct cf_unit *unit,
                    MPI_Comm comm);

/*
 * ---- overlap with the steps on the node (pipe.c) ---------------------------------------------
 *
 * The steps of a composition right before and right after one over a lane, done piece by piece
 * while that is under way: a segment is split on the node just before it leaves, and assembled as
 * soon as it is here; steps that follow and take vectors element by element come along. The
 * algorithm says which piece, counted in what a rank has on its lane: units from first on. All
 * ranks of a node are at the same place of their lanes, so they name the same pieces in the same
 * order; that is what keeps the pieces of a node together, and a rank that waits in one waits for
 * ranks that are no further than itself. For that lanes are cut alike: a vector whose slices differ
 * by a unit is cut as the longest slice, on all nodes, and the last segment of a shorter one has a
 * unit less or is an empty message.
 *
 * The network works meanwhile: the waits of shared.h let MPI progress.
 */

enum cf_pipe_call {
    CF_PIPE_NOTHING,
    CF_PIPE_SCATTER,
    CF_PIPE_REDUCE_SCATTER,
    CF_PIPE_GATHER,
    CF_PIPE_ALLGATHER,
    CF_PIPE_SCAN,
    CF_PIPE_EXSCAN,
    CF_PIPE_COMBINE,
    CF_PIPE_COPY
};

enum { CF_PIPE_STEPS = 4 };

/* A step with the arguments of its function. */
struct cf_pipe_step {
    enum cf_pipe_call call;
    const void *from;
    void *to;
    int root;
    MPI_Op op;
};

struct cf_pipe {
    struct cf_comm *comm;
    const struct cf_unit *unit;
    const struct cf_split *split; /* what the ranks of this node have on their lanes */
    struct cf_split piece;
    bool open;
    struct cf_pipe_step before;
    struct cf_pipe_step after;
    struct cf_pipe_step then[CF_PIPE_STEPS]; /* element by element, on whole vectors */
};

/*
 * Opens the pipe for the ranks of a node, or leaves it closed where the steps have to be done as a
 * whole: parts that are not cut alike, elements too large for the window. Alike on all ranks of the
 * node.
 */
int cf_pipe_open(struct cf_pipe *pipe, bool wanted);

/* The units by which a lane with count units of a vector is cut: alike on all lanes, and on all
 * nodes, be the pipe open there or not. NULL: an algorithm with no steps around it. */
static inline int cf_pipe_cut(const struct cf_pipe *pipe, int count) {
    return pipe == NULL ? count : pipe->split->counts[0];
}

/* The pieces of the two steps. Nothing without an open pipe. */
int cf_pipe_before(const struct cf_pipe *pipe, int first, int units);
int cf_pipe_after(const struct cf_pipe *pipe, int first, int units);

/* ---- places on a lane ------------------------------------------------------------------------ */

/* Places on a lane counted from a root, which is at position 0. */
static inline int cf_position(const struct cf_layout *at, int root) {
    return (at->node - root + at->nodes) % at->nodes;
}

static inline int cf_node_at(const struct cf_layout *at, int root, int position) {
    return (root + position) % at->nodes;
}

/*
 * The binomial tree over n positions: below position p stand p + 1 to p + span - 1, as far as there
 * are such, and p hangs under p - span. Its children are p + 1, p + 2, p + 4, ... With n = 5: 4, 2
 * and 1 under 0, 3 under 2; the spans are 8, 1, 2, 1, 4.
 */
enum { CF_MAX_CHILDREN = 31 };

static inline int cf_tree_span(int position, int n) {
    int span = 1;
    while (span < n && (position & span) == 0) {
        span *= 2;
    }
    return span;
}

static inline int cf_tree_children(int position, int n) {
    int children = 0;
    for (int below = 1; below < cf_tree_span(position, n) && position + below < n; below *= 2) {
        children++;
    }
    return children;
}

/* Units of the parts of a position and of those below it; parts are by position. */
int cf_tree_units(const struct cf_split *parts, int position);
/*
 * Down the tree from the root, and up to it. Each rank holds its own part and those of the
 * positions below it, one after the other, from held on: the root has all before the scatter and
 * after the gather.
 */
int cf_tree_scatter(struct cf_comm *comm, void *held, const struct cf_split *parts,
                    const struct cf_unit *unit, int root);
int cf_tree_gather(struct cf_comm *comm, void *held, const struct cf_split *parts,
                   const struct cf_unit *unit, int root);

/*
 * ---- lane algorithms -------------------------------------------------------------------------
 *
 * Each is one file of lane/algorithms and one of generator/specs/algorithms, with a function
 * cf_ALGORITHM_COLLECTIVE for each component collective that it has. The generator declares these
 * in lane_algorithms.h, with an enumeration of each algorithm's parameters, and writes into a
 * variant the table of those that its parameter lane_algorithm chooses from.
 */

/* A component collective over the lane of this rank, in units. What it has no use for is zero. */
struct cf_lane_call {
    struct cf_comm *comm;
    const struct cf_unit *unit;
    const void *from;
    void *to;                     /* of a bcast: the data, on the root too */
    int count;                    /* of a vector */
    const struct cf_split *parts; /* what each node gives or gets; of an alltoall, what it gets */
    const struct cf_split *arriving; /* alltoall: what each node gives */
    bool regular;                    /* alltoall: all nodes give and get the same, on all lanes */
    int root;                        /* node */
    MPI_Op op;
    bool commutes;              /* the op */
    const struct cf_pipe *pipe; /* NULL: nothing is done piece by piece around it */
    const int *parameter;       /* the algorithm's own, in the order of its spec */
};

/* Returns an MPI error class. */
typedef int cf_lane_function(const struct cf_lane_call *call);

/* One that a variant may choose, and where its parameters stand among the variant's. */
struct cf_lane_choice {
    cf_lane_function *run;
    bool pipelined; /* it does the steps around it piece by piece, where the pipe is open */
    int parameters[CF_MAX_PARAMETERS];
};

/* Runs one of them; sets call->parameter from the variant's. */
int cf_lane_run(struct cf_lane_call *call, const struct cf_lane_choice *choice,
                const int *parameter);

/* The MPI library's own (native.c). */
cf_lane_function cf_native_bcast, cf_native_reduce, cf_native_allreduce, cf_native_exscan;
cf_lane_function cf_native_gather, cf_native_scatter, cf_native_allgather, cf_native_alltoall;
cf_lane_function cf_native_reduce_scatter;

/*
 * The pipelined ring (ring.c): `steps` parts leave, of which the first is number `first`, and as
 * many arrive, each one less than that before (part n - 1 follows part 0). The first `reduced` that
 * arrive are combined with those of call->from; all others, and all if nothing is reduced, stand in
 * call->to. The last one reduced stands there `alone`, or at its place among all. Of the parts'
 * units this lane has the first `count`.
 */
struct cf_ring {
    const struct cf_lane_call *call;
    const struct cf_split *parts; /* alike on all ranks of the lane */
    int count;
    bool alone;
    int first;
    int reduced;
    int steps;
    int segment; /* units */
    int window;  /* segments under way at once, each way */
};

int cf_ring_run(const struct cf_ring *ring);

/*
 * The pairwise all-to-all in segments (exchange.c) among the n members of a communicator. The steps
 * go round in the given order of the members, which is alike on all of them; NULL: as they are.
 */
struct cf_exchange {
    struct cf_comm *comm;
    const void *from;
    const struct cf_split *send;
    void *to;
    const struct cf_split *receive;
    const struct cf_unit *unit;
    MPI_Comm over;
    const int *order;
    int n;
    int me;
    int segment; /* units */
    int window;  /* messages under way at once, each way */
};

int cf_exchange_run(const struct cf_exchange *of);

/*
 * Recursive doubling among n ranks: a power of two of them is active. The others, surplus of them,
 * are the even ranks below 2 * surplus, and have the rank after them stand for both. With n = 5:
 * 1 (for 0 too), 2, 3 and 4 are active, index 0 to 3.
 */
struct cf_doubling {
    int active;
    int surplus;
    int index; /* of this rank among the active ones; -1: it is not */
    bool stands_for_two;
};

struct cf_doubling cf_doubling_of(int rank, int n);

/* The active rank with this index, and the first rank that it stands for. */
static inline int cf_doubling_rank(const struct cf_doubling *who, int index) {
    return index < who->surplus ? 2 * index + 1 : index + who->surplus;
}

static inline int cf_doubling_first(const struct cf_doubling *who, int index) {
    return index < who->surplus ? 2 * index : index + who->surplus;
}

/*
 * Exchanges sums[0] with a partner, whose sum arrives in sums[1], and combines the two into
 * sums[0], that of the lower rank on the left. Where the partner is the lower, sums[1] stays what
 * it sent; else the two pointers have changed places.
 */
int cf_exchange_sums(struct cf_comm *comm, int partner, void *sums[2], int count,
                     const struct cf_unit *unit, MPI_Op op);

#endif
