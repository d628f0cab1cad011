/* The pipelined chain on a lane (specs/algorithms/chain.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/* The segments that stream along the chain, with the requests of those under way. */
struct chain {
    const struct cf_lane_call *call;
    int window;   /* segments under way, each way */
    int segment;  /* units */
    int cut;      /* units by which the vector is cut, on all lanes */
    int segments; /* of cut units */
    MPI_Request receive[CF_MAX_WINDOW];
    MPI_Request send[CF_MAX_WINDOW];
};

#define TRY(call) CF_TRY_OR_END(chain.receive, chain.send, chain.window, call)

static void begin(struct chain *chain, const struct cf_lane_call *call) {
    chain->call = call;
    chain->window = cf_window(call->parameter[CF_CHAIN_WINDOW]);
    chain->segment = cf_segment_units(call->parameter[CF_CHAIN_SEGMENT_BYTES], call->unit);
    chain->cut = cf_pipe_cut(call->pipe, call->count);
    chain->segments = cf_segments(chain->cut, chain->segment);
    cf_requests_clear(chain->receive, chain->window);
    cf_requests_clear(chain->send, chain->window);
}

static void *segment_at(const struct chain *chain, const void *buffer, int s) {
    return cf_at(chain->call->unit, buffer, (MPI_Aint)s * chain->segment);
}

/* The units that this lane has of a segment. */
static int units_of(const struct chain *chain, int s) {
    return cf_segment_count(s, chain->segment, chain->call->count);
}

/* Memory for as many segments. */
static void *room_for(const struct chain *chain, int segments) {
    const struct cf_lane_call *call = chain->call;
    const int units = cf_window_units(segments, chain->segment, call->count);

    return cf_temp(call->comm, CF_SLOT_LANE, units, call->unit);
}

/* Begins to receive segment s. The request's earlier segment has arrived. */
static int request(struct chain *chain, int s, void *to, int source) {
    return PMPI_Irecv(to, units_of(chain, s), chain->call->unit->type, source, 0,
                      chain->call->over.comm, &chain->receive[s % chain->window]);
}

static int wait_for(struct chain *chain, int s) {
    return cf_wait(&chain->receive[s % chain->window]);
}

static int wait_until_sent(struct chain *chain, int s) {
    return cf_wait(&chain->send[s % chain->window]);
}

/* Begins to send segment s. The request's earlier segment was sent. */
static int pass_on(struct chain *chain, int s, const void *from, int target) {
    return PMPI_Isend(from, units_of(chain, s), chain->call->unit->type, target, 0,
                      chain->call->over.comm, &chain->send[s % chain->window]);
}

static int node_steps_before(const struct chain *chain, int s) {
    return cf_pipe_before(chain->call->pipe, s * chain->segment,
                          cf_segment_count(s, chain->segment, chain->cut));
}

static int node_steps_after(const struct chain *chain, int s) {
    return cf_pipe_after(chain->call->pipe, s * chain->segment,
                         cf_segment_count(s, chain->segment, chain->cut));
}

/*
 * The lane's ranks form a chain from the root on. Each rank passes on a segment when it has
 * arrived. With 3 nodes, root 0 and 2 segments: 0 sends s0, s1; 1 passes s0 on while s1 arrives; 2
 * receives both.
 */
int cf_chain_bcast(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    const int position = cf_position(at, call->root);
    const int before = (at->rank - 1 + at->size) % at->size;
    const int after = (at->rank + 1) % at->size;
    struct chain chain;

    begin(&chain, call);
    for (int s = 0; s < chain.segments + chain.window; s++) {
        /* The segment passed on when segment s is requested. */
        const int done = s - chain.window;
        if (done >= 0) {
            TRY(wait_for(&chain, done));
            if (position < at->size - 1) {
                TRY(wait_until_sent(&chain, done));
                TRY(node_steps_before(&chain, done));
                TRY(pass_on(&chain, done, segment_at(&chain, call->to, done), after));
            }
            TRY(node_steps_after(&chain, done));
        }
        if (position > 0 && s < chain.segments) {
            TRY(request(&chain, s, segment_at(&chain, call->to, s), before));
        }
    }
    return cf_requests_wait(chain.send, chain.window);
}

/* The chain of an op that does not commute ends at rank 0, which sends the result to the root. */
static int send_to_root(const struct cf_lane_call *call, int end, const void *result) {
    const struct cf_over *at = &call->over;

    if (at->rank == end) {
        return cf_send(result, call->count, call->unit, call->root, 1, at->comm);
    }
    if (at->rank == call->root) {
        CF_TRY(cf_receive(call->to, call->count, call->unit, end, 1, at->comm));
        return cf_pipe_after(call->pipe, 0, cf_pipe_cut(call->pipe, call->count));
    }
    return MPI_SUCCESS;
}

/*
 * Partial results flow along the chain in rank order, so x0 o x1 o x2 is computed as x0 o (x1 o
 * x2). The chain ends at the root if the op commutes, else at rank 0.
 */
int cf_chain_reduce(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    const int end = call->commutes ? call->root : 0;
    const int position = cf_position(at, end);
    const int below = (at->rank - 1 + at->size) % at->size;
    const int above = (at->rank + 1) % at->size;
    const bool first = position == at->size - 1;
    const bool last = position == 0;
    struct chain chain;

    begin(&chain, call);
    /* The end has the whole result, in the result's buffer if it is the root. Ranks in the middle
     * have `window` segments, which are reused after they were sent. */
    const bool in_result = last && end == call->root;
    const int reused = last ? chain.segments : chain.window;
    void *partial = in_result ? call->to : room_for(&chain, reused);
    if (!in_result && partial == NULL) {
        return MPI_ERR_NO_MEM;
    }
    /* The first node step waits for all ranks of the node, which may read the result's memory until
     * they call. So it comes before the first receive. */
    if (chain.segments > 0) {
        TRY(node_steps_before(&chain, 0));
    }
    for (int s = 0; s < chain.segments + chain.window / 2; s++) {
        /* The segment combined when segment s is requested. */
        const int done = s - chain.window / 2;
        if (s < chain.segments && !first) {
            TRY(wait_until_sent(&chain, s));
            TRY(request(&chain, s, segment_at(&chain, partial, s % reused), above));
        }
        if (s > 0 && s < chain.segments) {
            TRY(node_steps_before(&chain, s));
        }
        if (done < 0) {
            continue;
        }
        const void *own = segment_at(&chain, call->from, done);
        void *sum = segment_at(&chain, partial, done % reused);
        if (!first) {
            TRY(wait_for(&chain, done));
            TRY(cf_combine(call->comm, own, sum, units_of(&chain, done), call->unit, call->op));
        }
        if (!last) {
            TRY(wait_until_sent(&chain, done));
            TRY(pass_on(&chain, done, first ? own : sum, below));
        } else if (end == call->root) {
            TRY(node_steps_after(&chain, done));
        }
    }
    CF_TRY(cf_requests_wait(chain.send, chain.window));
    return end == call->root ? MPI_SUCCESS : send_to_root(call, end, partial);
}

/*
 * Prefixes flow along the chain. Rank i receives its result, x0 o .. o x(i-1), and passes it on
 * combined with its own segment. Rank 0 does not write its result.
 */
int cf_chain_exscan(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const bool first = at->rank == 0;
    const bool last = at->rank == at->size - 1;
    struct chain chain;

    begin(&chain, call);
    void *next = room_for(&chain, chain.window);
    CF_TRY_MEMORY(next);
    for (int s = 0; s < chain.segments + chain.window; s++) {
        /* The segment passed on when segment s is requested. */
        const int done = s - chain.window;
        if (done >= 0) {
            const int units = units_of(&chain, done);
            void *sum = segment_at(&chain, next, done % chain.window);
            TRY(wait_for(&chain, done));
            if (!last) {
                TRY(wait_until_sent(&chain, done));
                TRY(cf_copy(call->comm, sum, segment_at(&chain, call->from, done), units, unit));
                if (!first) {
                    TRY(cf_combine(call->comm, segment_at(&chain, call->to, done), sum, units, unit,
                                   call->op));
                }
                TRY(pass_on(&chain, done, sum, at->rank + 1));
            }
            TRY(node_steps_after(&chain, done));
        }
        if (!first && s < chain.segments) {
            TRY(request(&chain, s, segment_at(&chain, call->to, s), at->rank - 1));
        }
        if (!last && s < chain.segments) {
            TRY(node_steps_before(&chain, s));
        }
    }
    return cf_requests_wait(chain.send, chain.window);
}
