/* The pipelined chain on a lane (specs/algorithms/chain.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * The lane's ranks form a chain from the root on. Each rank passes on a segment when it has
 * arrived. With 3 nodes, root 0 and 2 segments: 0 sends s0, s1; 1 passes s0 on while s1 arrives; 2
 * receives both.
 */
int cf_chain_bcast(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const int position = cf_position(at, call->root);
    const int before = (at->node - 1 + at->nodes) % at->nodes;
    const int after = (at->node + 1) % at->nodes;
    const int window = cf_window(call->parameter[CF_CHAIN_WINDOW]);
    const int segment = cf_segment_units(call->parameter[CF_CHAIN_SEGMENT_BYTES], unit);
    const int cut = cf_pipe_cut(call->pipe, call->count);
    const int segments = cf_segments(cut, segment);
    MPI_Request receive[CF_MAX_WINDOW];
    MPI_Request send[CF_MAX_WINDOW];

    cf_requests_clear(receive, window);
    cf_requests_clear(send, window);
    for (int s = 0; s < segments + window; s++) {
        /* The segment passed on when segment s is requested. */
        const int done = s - window;
        if (done >= 0) {
            const int units = cf_segment_count(done, segment, cut);
            CF_TRY_IN_WINDOW(cf_wait(&receive[done % window]));
            if (position < at->nodes - 1) {
                CF_TRY_IN_WINDOW(cf_wait(&send[done % window]));
                CF_TRY_IN_WINDOW(cf_pipe_before(call->pipe, done * segment, units));
                CF_TRY_IN_WINDOW(PMPI_Isend(cf_at(unit, call->to, (MPI_Aint)done * segment),
                                            cf_segment_count(done, segment, call->count),
                                            unit->type, after, 0, at->lane_comm,
                                            &send[done % window]));
            }
            CF_TRY_IN_WINDOW(cf_pipe_after(call->pipe, done * segment, units));
        }
        if (position > 0 && s < segments) {
            CF_TRY_IN_WINDOW(PMPI_Irecv(cf_at(unit, call->to, (MPI_Aint)s * segment),
                                        cf_segment_count(s, segment, call->count), unit->type,
                                        before, 0, at->lane_comm, &receive[s % window]));
        }
    }
    return cf_requests_wait(send, window);
}

/*
 * Partial results flow along the chain in rank order, so x0 o x1 o x2 is computed as x0 o (x1 o
 * x2). The chain ends at the root if the op commutes, else at rank 0, which sends the result to the
 * root.
 */
int cf_chain_reduce(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const int window = cf_window(call->parameter[CF_CHAIN_WINDOW]);
    const int segment = cf_segment_units(call->parameter[CF_CHAIN_SEGMENT_BYTES], unit);
    const int cut = cf_pipe_cut(call->pipe, call->count);
    const int segments = cf_segments(cut, segment);
    MPI_Request receive[CF_MAX_WINDOW];
    MPI_Request send[CF_MAX_WINDOW];

    const int end = call->commutes ? call->root : 0;
    const int position = cf_position(at, end);
    const int below = (at->node - 1 + at->nodes) % at->nodes;
    const int above = (at->node + 1) % at->nodes;
    const bool first = position == at->nodes - 1;
    const bool last = position == 0;
    /* The end combines in the result buffer. Ranks in the middle have `window` segments, which are
     * reused after they were sent. */
    char *partial = last ? call->to
                         : cf_temp(call->comm, CF_SLOT_LANE,
                                   cf_window_units(window, segment, call->count), unit);
    if (!last && partial == NULL) {
        return MPI_ERR_NO_MEM;
    }
    cf_requests_clear(receive, window);
    cf_requests_clear(send, window);
    for (int s = 0; s < segments + window / 2; s++) {
        /* The segment combined when segment s is requested. */
        const int done = s - window / 2;
        if (s < segments && !first) {
            CF_TRY_IN_WINDOW(cf_wait(&send[s % window]));
            CF_TRY_IN_WINDOW(
                PMPI_Irecv(cf_at(unit, partial, (MPI_Aint)(last ? s : s % window) * segment),
                           cf_segment_count(s, segment, call->count), unit->type, above, 0,
                           at->lane_comm, &receive[s % window]));
        }
        if (s < segments) {
            CF_TRY_IN_WINDOW(
                cf_pipe_before(call->pipe, s * segment, cf_segment_count(s, segment, cut)));
        }
        if (done < 0) {
            continue;
        }
        const int units = cf_segment_count(done, segment, call->count);
        const void *own = cf_at(unit, call->from, (MPI_Aint)done * segment);
        void *sum = cf_at(unit, partial, (MPI_Aint)(last ? done : done % window) * segment);
        if (!first) {
            CF_TRY_IN_WINDOW(cf_wait(&receive[done % window]));
            CF_TRY_IN_WINDOW(cf_combine(call->comm, own, sum, units, unit, call->op));
        }
        if (!last) {
            CF_TRY_IN_WINDOW(cf_wait(&send[done % window]));
            CF_TRY_IN_WINDOW(PMPI_Isend(first ? own : sum, units, unit->type, below, 0,
                                        at->lane_comm, &send[done % window]));
        } else if (end == call->root) {
            CF_TRY_IN_WINDOW(
                cf_pipe_after(call->pipe, done * segment, cf_segment_count(done, segment, cut)));
        }
    }
    CF_TRY(cf_requests_wait(send, window));
    if (end != call->root && at->node == end) {
        return cf_send(call->to, call->count, unit, call->root, 1, at->lane_comm);
    }
    if (end != call->root && at->node == call->root) {
        CF_TRY(cf_receive(call->to, call->count, unit, end, 1, at->lane_comm));
        return cf_pipe_after(call->pipe, 0, cut);
    }
    return MPI_SUCCESS;
}

/*
 * Prefixes flow along the chain. Rank i receives its result, x0 o .. o x(i-1), and passes it on
 * combined with its own segment. Rank 0 does not write its result.
 */
int cf_chain_exscan(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const int window = cf_window(call->parameter[CF_CHAIN_WINDOW]);
    const int segment = cf_segment_units(call->parameter[CF_CHAIN_SEGMENT_BYTES], unit);
    const int cut = cf_pipe_cut(call->pipe, call->count);
    const int segments = cf_segments(cut, segment);
    const bool first = at->node == 0;
    const bool last = at->node == at->nodes - 1;
    MPI_Request receive[CF_MAX_WINDOW];
    MPI_Request send[CF_MAX_WINDOW];
    char *next =
        cf_temp(call->comm, CF_SLOT_LANE, cf_window_units(window, segment, call->count), unit);

    if (next == NULL) {
        return MPI_ERR_NO_MEM;
    }
    cf_requests_clear(receive, window);
    cf_requests_clear(send, window);
    for (int s = 0; s < segments + window; s++) {
        /* The segment passed on when segment s is requested. */
        const int done = s - window;
        if (done >= 0) {
            const int units = cf_segment_count(done, segment, call->count);
            const void *own = cf_at(unit, call->from, (MPI_Aint)done * segment);
            void *sum = cf_at(unit, next, (MPI_Aint)(done % window) * segment);
            CF_TRY_IN_WINDOW(cf_wait(&receive[done % window]));
            if (!last) {
                CF_TRY_IN_WINDOW(cf_wait(&send[done % window]));
                CF_TRY_IN_WINDOW(cf_copy(call->comm, sum, own, units, unit));
                if (!first) {
                    CF_TRY_IN_WINDOW(cf_combine(call->comm,
                                                cf_at(unit, call->to, (MPI_Aint)done * segment),
                                                sum, units, unit, call->op));
                }
                CF_TRY_IN_WINDOW(PMPI_Isend(sum, units, unit->type, at->node + 1, 0, at->lane_comm,
                                            &send[done % window]));
            }
            CF_TRY_IN_WINDOW(
                cf_pipe_after(call->pipe, done * segment, cf_segment_count(done, segment, cut)));
        }
        if (!first && s < segments) {
            CF_TRY_IN_WINDOW(PMPI_Irecv(cf_at(unit, call->to, (MPI_Aint)s * segment),
                                        cf_segment_count(s, segment, call->count), unit->type,
                                        at->node - 1, 0, at->lane_comm, &receive[s % window]));
        }
        if (!last && s < segments) {
            CF_TRY_IN_WINDOW(
                cf_pipe_before(call->pipe, s * segment, cf_segment_count(s, segment, cut)));
        }
    }
    return cf_requests_wait(send, window);
}
