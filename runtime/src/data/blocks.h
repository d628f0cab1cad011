/* How many units the blocks of a call have. */
#ifndef COLLFORGE_BLOCKS_H_INCLUDED
#define COLLFORGE_BLOCKS_H_INCLUDED

#include "base/cf.h"

/*
 * The units of the blocks of a call: all alike (units == NULL), else one number a rank, or one a
 * pair of ranks at [source * size + target]. Alike on all ranks.
 */
struct cf_blocks {
    const int *units;
    int step; /* from one number to the next */
    int each;
};

static inline int cf_block(const struct cf_blocks *blocks, int index) {
    return blocks->units == NULL ? blocks->each : blocks->units[(MPI_Aint)index * blocks->step];
}

/* Of the blocks of pairs, those that a rank sends, by target; or that it receives, by source. */
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

/* Units of the blocks of these ranks (n of them), or of pairs: of this rank's row or column. */
int cf_units_of(const struct cf_blocks *blocks, const int *ranks, int n);
int cf_all_units(const struct cf_layout *at, const struct cf_blocks *blocks);
/* Of the ranks of a node on a lane; of all ranks on a lane. */
int cf_share_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane, int node,
                   const struct cf_blocks *blocks);
int cf_lane_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                  const struct cf_blocks *blocks);
/* Of the pairs from this node's ranks to the ranks on a lane; from all ranks to this node's share
 * of it. */
int cf_outgoing_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs);
int cf_incoming_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs);

/* The ranks of a node on a lane, in order: share_size[lane * nodes + node] of them. Those on the
 * whole lane begin with node 0; those of a whole node are on the lane of at->single. */
const int *cf_share_ranks(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                          int node);

/* Whether the splits of an exchange of pairs are uniform on all ranks: over a lane, and over a node
 * where each of its ranks has a lane. */
static inline bool cf_is_regular(const struct cf_layout *at, const struct cf_blocks *pairs) {
    return pairs->units == NULL && at->min_node_size == at->max_node_size;
}

#endif
