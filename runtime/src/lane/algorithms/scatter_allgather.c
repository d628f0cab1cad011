/* Scatter and allgather on a lane (specs/algorithms/scatter_allgather.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * With 3 nodes and root 0: 0 -> 2 with part 2, 0 -> 1 with part 1; then around the ring 0 -> 1 with
 * part 0, 1 -> 2 with part 1, 2 -> 0 with part 2 (which 0 has), and so on. Parts are numbered by
 * position from the root.
 */
int cf_scatter_allgather_bcast(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const int position = cf_position(at, call->root);
    struct cf_split parts;

    CF_TRY(cf_split_even(&parts, call->comm, CF_SLOT_PARTS, at->size, call->count));
    CF_TRY(cf_tree_scatter(&call->over, cf_at(unit, call->to, parts.displs[position]), &parts, unit,
                           call->root, 2));
    struct cf_lane_call own = *call;
    if (position == 0) { /* its buffer may be read-only: the root receives elsewhere what it has */
        own.to = cf_temp(call->comm, CF_SLOT_LANE, call->count, unit);
        CF_TRY(own.to == NULL ? MPI_ERR_NO_MEM
                              : cf_copy(call->comm, own.to, call->to, parts.counts[0], unit));
    }
    const struct cf_ring ring = {
        .call = &own,
        .parts = &parts,
        .count = call->count,
        .first = position,
        .steps = at->size - 1,
        .segment = cf_segment_units(call->parameter[CF_SCATTER_ALLGATHER_SEGMENT_BYTES], unit),
        .window = call->parameter[CF_SCATTER_ALLGATHER_WINDOW],
    };
    return cf_ring_run(&ring);
}
