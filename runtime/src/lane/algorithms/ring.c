/* The ring on a lane (specs/algorithms/ring.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * In step s every rank passes on the part received in step s - 1, and in step 0 its own. With 3
 * nodes: 0 sends part 0, then part 2; it receives part 2 from rank 2, then part 1.
 */
int cf_ring_allgather(const struct cf_lane_call *call) {
    const int node = call->over.rank;
    const struct cf_ring ring = {
        .call = call,
        .parts = call->parts,
        .count = call->parts->total,
        .first = node,
        .steps = call->over.size - 1,
        .segment = cf_segment_units(call->parameter[CF_RING_SEGMENT_BYTES], call->unit),
        .window = call->parameter[CF_RING_WINDOW],
    };

    CF_TRY(cf_copy(call->comm, cf_at(call->unit, call->to, call->parts->displs[node]), call->from,
                   call->parts->counts[node], call->unit));
    return cf_ring_run(&ring);
}

/*
 * The partial sum of part r starts at rank r + 1. Every rank adds its operand and passes it on;
 * rank r is last. That is not rank order, so non-commutative ops use the MPI library.
 */
int cf_ring_reduce_scatter(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    const struct cf_ring ring = {
        .call = call,
        .parts = call->parts,
        .count = call->parts->total,
        .alone = true,
        .first = (at->rank - 1 + at->size) % at->size,
        .reduced = at->size - 1,
        .steps = at->size - 1,
        .segment = cf_segment_units(call->parameter[CF_RING_SEGMENT_BYTES], call->unit),
        .window = call->parameter[CF_RING_WINDOW],
    };

    if (call->commutes) {
        return cf_ring_run(&ring);
    }
    CF_TRY(cf_pipe_before(call->pipe, 0, call->parts->total));
    return cf_native_reduce_scatter(call);
}

/*
 * A reduce-scatter and an allgather in one stream. With 3 nodes, 0 sends part 2 of x0, then part 1
 * of x0 o x2, then the sums of part 0 and part 2. Each part is summed by one rank, so all ranks get
 * the same bits.
 */
int cf_ring_allreduce(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    const int cut = cf_pipe_cut(call->pipe, call->count);
    struct cf_split parts;

    if (!call->commutes) {
        CF_TRY(cf_pipe_before(call->pipe, 0, cut));
        CF_TRY(cf_native_allreduce(call));
        return cf_pipe_after(call->pipe, 0, cut);
    }
    CF_TRY(cf_split_even(&parts, call->comm, CF_SLOT_PARTS, at->size, cut));
    const struct cf_ring ring = {
        .call = call,
        .parts = &parts,
        .count = call->count,
        .first = (at->rank - 1 + at->size) % at->size,
        .reduced = at->size - 1,
        .steps = 2 * (at->size - 1),
        .segment = cf_segment_units(call->parameter[CF_RING_SEGMENT_BYTES], call->unit),
        .window = call->parameter[CF_RING_WINDOW],
    };
    return cf_ring_run(&ring);
}
