/* The sizes of a call's blocks, in units. */
#ifndef COLLFORGE_BLOCKS_H_INCLUDED
#define COLLFORGE_BLOCKS_H_INCLUDED

#include "base/cf.h"

/*
 * The units of each block of a call. All blocks may be equal (units == NULL). Otherwise units has
 * one number per rank, equal on all ranks. In an all-to-all it has those of this rank alone: of the
 * blocks that it sends, by target, then of those that it receives, by source (cf_column). pairs.h
 * has those of other ranks.
 */
struct cf_blocks {
    const int *units;
    int each;
};

static inline int cf_block(const struct cf_blocks *blocks, int index) {
    return blocks->units == NULL ? blocks->each : blocks->units[index];
}

/* The blocks that this rank of `size` receives in an all-to-all. */
static inline struct cf_blocks cf_column(const struct cf_blocks *blocks, int size) {
    return (struct cf_blocks){blocks->units == NULL ? NULL : blocks->units + size, blocks->each};
}

static inline int cf_larger(int a, int b) {
    return a > b ? a : b;
}

/* Sums of units. cf_units_of: over n ranks. cf_all_units: over all ranks. */
int cf_units_of(const struct cf_blocks *blocks, const int *ranks, int n);
int cf_all_units(const struct cf_layout *at, const struct cf_blocks *blocks);
/* Over a node's ranks on a lane; over all ranks on a lane. */
int cf_share_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane, int node,
                   const struct cf_blocks *blocks);
int cf_lane_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                  const struct cf_blocks *blocks);

/* The ranks of a node on a lane (the node's share of the lane), in order: share_size[lane * nodes +
 * node] of them. For node 0 all ranks of the lane follow. With &at->single and lane 0: all ranks of
 * the node. */
const int *cf_share_ranks(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                          int node);

/* Whether the splits of an all-to-all are uniform on all ranks, over a lane and, with one lane per
 * rank, over a node. */
static inline bool cf_is_regular(const struct cf_layout *at, const struct cf_blocks *blocks) {
    return blocks->units == NULL && at->min_node_size == at->max_node_size;
}

#endif
