/*
 * The room lane: collectives by messages over a lane (one rank per node), the scans also over a
 * node, and the overlap of lanes with the steps on the node.
 */
#ifndef COLLFORGE_LANE_H_INCLUDED
#define COLLFORGE_LANE_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

/* ---- segments of a pipeline ------------------------------------------------------------------ */

/* Units in a segment of about segment_bytes bytes; at least one. */
static inline int cf_segment_units(int segment_bytes, const struct cf_unit *unit) {
    const int units = unit->size > 0 ? segment_bytes / unit->size : 1;
    return units > 0 ? units : 1;
}

static inline int cf_segments(int count, int segment) {
    return count / segment + (count % segment != 0);
}

/* How many of the units [first, first + units) a buffer of count units has. */
static inline int cf_units_within(int first, int units, int count) {
    const int rest = count - first;
    return rest <= 0 ? 0 : rest < units ? rest : units;
}

/* Units in segment index. */
static inline int cf_segment_count(int index, int segment, int count) {
    return cf_units_within(index * segment, segment, count);
}

/* Limit of the pipeline window: the messages that an algorithm has under way in one direction. A
 * stored value may be any number. */
enum { CF_MAX_WINDOW = 64 };

static inline int cf_window(int window) {
    return window < 1 ? 1 : window > CF_MAX_WINDOW ? CF_MAX_WINDOW : window;
}

/* Units in a pipeline window, for a buffer of count units. */
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
 * As MPI's functions of these names, but after some polls a rank yields the CPU. Each returns an
 * MPI error class.
 */

int cf_wait(MPI_Request *request);

/*
 * Waits for n requests each way (NULL: none) and returns err, or else their first error. Every exit
 * of an algorithm calls it: after the call no request may access its buffers, which belong to the
 * program if its error handler returns. After an error, receives are cancelled first, because their
 * messages may never be sent. Sends cannot be cancelled. Live receivers still receive them; if they
 * do not complete in ten seconds, the receivers have failed too, and the sends are abandoned.
 */
int cf_requests_end(MPI_Request *receive, MPI_Request *send, int n, int err);
/* The same for sends alone, without an earlier error. */
int cf_requests_wait(MPI_Request *send, int n);

/* CF_TRY with requests under way. */
#define CF_TRY_OR_END(receive, send, n, call)                                                      \
    do {                                                                                           \
        const int cf_try_error = (call);                                                           \
        if (cf_try_error != MPI_SUCCESS) {                                                         \
            return cf_requests_end(receive, send, n, cf_try_error);                                \
        }                                                                                          \
    } while (0)

int cf_send(const void *data, int count, const struct cf_unit *unit, int target, int tag,
            MPI_Comm comm);
int cf_receive(void *data, int count, const struct cf_unit *unit, int source, int tag,
               MPI_Comm comm);

/* count units, sent to rank or received from it. */
struct cf_message {
    void *data;
    int count;
    int rank;
};

/* Limit of a `radix`: the ranks that a step of an algorithm joins. */
enum { CF_MAX_RADIX = 16 };

/* Messages that are under way at once, with tag 0. */
struct cf_batch {
    int n;
    MPI_Request receive[CF_MAX_RADIX];
    MPI_Request send[CF_MAX_RADIX];
};

/* Begins a message each way. One without units is not sent; its receiver knows. */
int cf_batch_add(struct cf_batch *batch, struct cf_message out, struct cf_message in,
                 const struct cf_unit *unit, MPI_Comm comm);
int cf_batch_end(struct cf_batch *batch, int err);

/*
 * ---- overlap with the steps on the node (pipe.c) ---------------------------------------------
 *
 * The node steps right before and after a lane step can run segment by segment while the lane step
 * is under way. A segment is split on the node just before it is sent, and assembled when it has
 * arrived. Later steps that work element by element on whole vectors (then) run with it. The
 * algorithm names the segment by its units on the lane, from first on. All ranks of a node are at
 * the same point of their lanes, so they name the same segments in the same order. The node steps
 * therefore match, and a rank waits only for ranks that are no further than itself. All lanes must
 * be cut alike: where the slices of a vector differ by one unit, all are cut as the longest, on all
 * nodes. The last segment of a shorter slice has one unit less, or is an empty message.
 *
 * The network makes progress meanwhile, because the waits of shared.h call MPI.
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

/* A node step with the arguments of its function. */
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
    const struct cf_split *split; /* the ranks of this node, by what they have on their lanes */
    struct cf_split piece;
    bool open;
    struct cf_pipe_step before;
    struct cf_pipe_step after;
    struct cf_pipe_step then[CF_PIPE_STEPS]; /* element by element, on whole vectors */
};

/*
 * Opens the pipe for the ranks of a node. It stays closed, so that the node steps run as a whole,
 * if the parts are not cut alike or an element does not fit the shared-memory window. Equal on all
 * ranks of the node.
 */
int cf_pipe_open(struct cf_pipe *pipe, bool wanted);

/* The units by which to cut the count units that a lane has of a vector. Equal on all lanes and
 * nodes, whether the pipe is open or not. NULL: an algorithm without node steps. */
static inline int cf_pipe_cut(const struct cf_pipe *pipe, int count) {
    return pipe == NULL ? count : pipe->split->counts[0];
}

/* Run the node steps for one segment. They do nothing if the pipe is not open. */
int cf_pipe_before(const struct cf_pipe *pipe, int first, int units);
int cf_pipe_after(const struct cf_pipe *pipe, int first, int units);

/* ---- ranks and positions --------------------------------------------------------------------- */

/* The ranks among which an algorithm runs: those of a lane, whose ranks are nodes, or of a node. */
struct cf_over {
    MPI_Comm comm;
    int rank;
    int size;
};

/* Positions are counted from the root, which has position 0. */
static inline int cf_position(const struct cf_over *at, int root) {
    return (at->rank - root + at->size) % at->size;
}

static inline int cf_rank_at(const struct cf_over *at, int root, int position) {
    return (root + position) % at->size;
}

/*
 * Butterflies among n ranks, of which radix^i * m take part, as many as possible (m < radix). The
 * other `surplus` ranks are the even ones below 2 * surplus; the next rank acts for them. With
 * n = 5 and radix 2: 1 (also for 0), 2, 3 and 4 are active, with index 0 to 3.
 */
struct cf_butterfly {
    int radix;
    int active;
    int surplus;
    int index; /* of this rank among the active ones; -1: not active */
    bool stands_for_two;
};

struct cf_butterfly cf_butterfly_of(int rank, int n, int radix);

/* The active rank with this index, and the first rank it acts for. */
static inline int cf_active_rank(const struct cf_butterfly *who, int index) {
    return index < who->surplus ? 2 * index + 1 : index + who->surplus;
}

static inline int cf_active_first(const struct cf_butterfly *who, int index) {
    return index < who->surplus ? 2 * index : index + who->surplus;
}

/*
 * The radix-nomial tree over n positions, binomial with radix 2. The digits of positions are in
 * base radix. The subtree of position p has p to p + span - 1, as far as they exist. The parent of
 * p lacks its last digit that is not 0; its children have one more. With n = 5 and radix 2: the
 * children of 0 are 1, 2 and 4, that of 2 is 3; the spans of 0 to 4 are 8, 1, 2, 1, 4. With radix
 * 3: those of 0 are 1, 2 and 3, that of 3 is 4.
 */
enum { CF_MAX_CHILDREN = 120 };

struct cf_tree {
    int position;
    int span;
    int parent; /* a position; for the root its own */
    int nchildren;
    int children[CF_MAX_CHILDREN]; /* positions, the nearest first */
};

/* A stored value may be any number. */
static inline int cf_radix(int radix) {
    return radix < 2 ? 2 : radix > CF_MAX_RADIX ? CF_MAX_RADIX : radix;
}

static inline int cf_tree_span(int position, int n, int radix) {
    int span = 1;
    while (span < n && position / span % radix == 0) {
        span *= radix;
    }
    return span;
}

/* The tree from the root, as this rank sees it. */
void cf_tree_of(struct cf_tree *tree, const struct cf_over *at, int root, int radix);

/* Units of the parts in the subtree of a position; parts are by position. */
int cf_tree_units(const struct cf_split *parts, int position, int radix);
/*
 * Scatters down the tree from the root, or gathers up to it. Each rank has the parts of its subtree
 * contiguously in held: the root has all, before the scatter and after the gather.
 */
int cf_tree_scatter(const struct cf_over *at, void *held, const struct cf_split *parts,
                    const struct cf_unit *unit, int root, int radix);
int cf_tree_gather(const struct cf_over *at, void *held, const struct cf_split *parts,
                   const struct cf_unit *unit, int root, int radix);

/*
 * ---- lane algorithms -------------------------------------------------------------------------
 *
 * Each algorithm is one file of lane/algorithms and one of generator/specs/algorithms, with a
 * function cf_ALGORITHM_COLLECTIVE for each component collective it implements. The generator
 * declares these in lane_algorithms.h, with an enumeration of each algorithm's parameters. A
 * variant contains the table from which its parameter lane_algorithm chooses.
 */

/* The arguments of a component collective, in units. Unused ones are 0. */
struct cf_lane_call {
    struct cf_comm *comm;
    struct cf_over over;
    const struct cf_unit *unit;
    const void *from;
    void *to;                     /* bcast: the data, also on the root */
    int count;                    /* of a vector */
    const struct cf_split *parts; /* what each rank sends or receives; alltoall: what it is sent */
    const struct cf_split *arriving; /* alltoall: what each rank sends here */
    bool regular;                    /* alltoall: all blocks are equal, on all lanes */
    int root;                        /* in over */
    MPI_Op op;
    bool commutes;              /* whether the op commutes */
    const struct cf_pipe *pipe; /* NULL: no node steps */
    const int *parameter;       /* of the algorithm, in the order of its spec */
};

/* Returns an MPI error class. */
typedef int cf_lane_function(const struct cf_lane_call *call);

/* A lane algorithm of a variant, and the indices of its parameters in the variant's. */
struct cf_lane_choice {
    cf_lane_function *run;
    bool pipelined; /* with an open pipe it runs the node steps by segments */
    int parameters[CF_MAX_PARAMETERS];
};

/* Runs the algorithm over this rank's lane; sets call->parameter from the variant's parameters. */
int cf_lane_run(struct cf_lane_call *call, const struct cf_lane_choice *choice,
                const int *parameter);

/*
 * An exscan by the algorithm over the ranks of this rank's node, and a scan made of it. For MPI
 * libraries whose scan is a chain of all ranks (Open MPI's), where no memory is shared.
 */
int cf_node_exscan(struct cf_lane_call *call, const struct cf_lane_choice *exscan,
                   const int *parameter);
int cf_node_scan(struct cf_lane_call *call, const struct cf_lane_choice *exscan,
                 const int *parameter);

/* The MPI library's collectives (native.c). */
cf_lane_function cf_native_bcast, cf_native_reduce, cf_native_allreduce, cf_native_exscan;
cf_lane_function cf_native_gather, cf_native_scatter, cf_native_allgather, cf_native_alltoall;
cf_lane_function cf_native_reduce_scatter;

/*
 * The pipelined ring (ring.c). A rank sends `steps` parts and receives as many. The first part sent
 * has number `first`; each next one has the number before it (part n - 1 after part 0). The first
 * `reduced` parts received are combined with those of call->from. The other parts, all if reduced
 * is 0, are in call->to at their displacements. So is the last reduced part, or at the beginning of
 * call->to if `alone`. This lane has the first `count` units of the parts.
 */
struct cf_ring {
    const struct cf_lane_call *call;
    const struct cf_split *parts; /* equal on all ranks of the lane */
    int count;
    bool alone;
    int first;
    int reduced;
    int steps;
    int segment; /* units */
    int window;  /* pipeline window: segments under way, each way */
};

int cf_ring_run(const struct cf_ring *ring);

/*
 * The pairwise all-to-all in segments (exchange.c) among the n members of a communicator. The steps
 * follow the order of the members, equal on all of them; NULL: rank order.
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
    int window;  /* pipeline window: messages under way, each way */
};

int cf_exchange_run(const struct cf_exchange *of);

#endif
