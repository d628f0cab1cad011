/* Sums over the blocks of a call. Local. */
#include "data/blocks.h"

const int *cf_share_ranks(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                          int node) {
    return lanes->order + lanes->share_begin[lane * at->nodes + node];
}

int cf_units_of(const struct cf_blocks *blocks, const int *ranks, int n) {
    int sum = 0;

    if (blocks->units == NULL) {
        return n * blocks->each;
    }
    for (int i = 0; i < n; i++) {
        sum += cf_block(blocks, ranks[i]);
    }
    return sum;
}

int cf_all_units(const struct cf_layout *at, const struct cf_blocks *blocks) {
    return cf_units_of(blocks, at->single.order, at->size);
}

int cf_share_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane, int node,
                   const struct cf_blocks *blocks) {
    return cf_units_of(blocks, cf_share_ranks(at, lanes, lane, node),
                       lanes->share_size[lane * at->nodes + node]);
}

int cf_lane_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                  const struct cf_blocks *blocks) {
    return cf_units_of(blocks, cf_share_ranks(at, lanes, lane, 0), lanes->lane_size[lane]);
}

int cf_outgoing_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs) {
    const int *sources = cf_share_ranks(at, &at->single, 0, at->node);
    int sum = 0;

    for (int i = 0; i < at->node_size[at->node]; i++) {
        const struct cf_blocks row = cf_row(pairs, at->size, sources[i]);
        sum += cf_lane_units(at, lanes, lane, &row);
    }
    return sum;
}

int cf_incoming_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs) {
    int sum = 0;

    for (int source = 0; source < at->size; source++) {
        const struct cf_blocks row = cf_row(pairs, at->size, source);
        sum += cf_share_units(at, lanes, lane, at->node, &row);
    }
    return sum;
}
