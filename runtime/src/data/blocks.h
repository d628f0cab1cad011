/* The sizes of a call's blocks, in units. */
#ifndef COLLFORGE_BLOCKS_H_INCLUDED
#define COLLFORGE_BLOCKS_H_INCLUDED

#include "base/cf.h"

/*
 * The units of each block of a call. All blocks may be equal (units == NULL). Otherwise units has
 * one number per rank, or one per pair of ranks at [source * size + target]. Equal on all ranks.
 */
struct cf_blocks {
    const int *units;
    int step; /* stride in units */
    int each;
};

static inline int cf_block(const struct cf_blocks *blocks, int index) {
    return blocks->units == NULL ? blocks->each : blocks->units[(MPI_Aint)index * blocks->step];
}

/* From the blocks of all pairs: those a rank sends, by target; those it receives, by source. */
static inline struct cf_blocks cf_row(const struct cf_blocks *pairs, int size, int rank) {
    const MPI_Aint first = (MPI_Aint)rank * size;
    return (struct cf_blocks){pairs->units == NULL ? NULL : pairs->units + first, 1, pairs->each};
}

static inline struct cf_blocks cf_column(const struct cf_blocks *pairs, int size, int rank) {
    return (struct cf_blocks){pairs->units == NULL ? NULL : pairs->units + rank, size, pairs->each};
}

static inline int cf_larger(int a, int b) {
    return a > b ? a : b;
}

/* Sums of units. blocks has one number per rank, for example a row or column of pairs. cf_units_of:
 * over n ranks. cf_all_units: over all ranks. */
int cf_units_of(const struct cf_blocks *blocks, const int *ranks, int n);
int cf_all_units(const struct cf_layout *at, const struct cf_blocks *blocks);
/* Over a node's ranks on a lane; over all ranks on a lane. */
int cf_share_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane, int node,
                   const struct cf_blocks *blocks);
int cf_lane_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                  const struct cf_blocks *blocks);
/* From this node's ranks to all ranks on a lane; from all ranks to this node's ranks on a lane. */
int cf_outgoing_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs);
int cf_incoming_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs);

/* The ranks of a node on a lane (the node's share of the lane), in order: share_size[lane * nodes +
 * node] of them. For node 0 all ranks of the lane follow. With &at->single and lane 0: all ranks of
 * the node. */
const int *cf_share_ranks(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                          int node);

/* Whether the splits of an all-to-all are uniform on all ranks, over a lane and, with one lane per
 * rank, over a node. */
static inline bool cf_is_regular(const struct cf_layout *at, const struct cf_blocks *pairs) {
    return pairs->units == NULL && at->min_node_size == at->max_node_size;
}

#endif
