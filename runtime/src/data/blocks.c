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
