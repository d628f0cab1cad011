/* How the units of a buffer are divided among the ranks of a node or a lane. */
#ifndef COLLFORGE_SPLIT_H_INCLUDED
#define COLLFORGE_SPLIT_H_INCLUDED

#include "data/blocks.h"

/* Units per member of a communicator, in member order. counts[n] and displs[n] are in units. */
struct cf_split {
    int n;
    int *counts;
    int *displs;
    int total;
    bool uniform; /* all counts are equal, on all members: the regular collective may be used */
    bool alike;   /* all parts can be pipelined with the segments of counts[0], the longest; shorter
                     parts end earlier */
};

/* A split of n members whose counts the caller stores before cf_split_end, in a slot. */
int cf_split_begin(struct cf_split *split, struct cf_comm *comm, int slot, int n);

/* Sets what follows from the counts. */
static inline void cf_split_end(struct cf_split *split) {
    split->total = 0;
    split->uniform = true;
    for (int i = 0; i < split->n; i++) {
        split->displs[i] = split->total;
        split->total += split->counts[i];
        split->uniform = split->uniform && split->counts[i] == split->counts[0];
    }
    split->alike = split->uniform;
}

/* Each of these takes its arrays from a slot. Members are those of node_comm (n = ranks of this
 * node) or lane_comm (n = nodes). */
int cf_split_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int units);
/* For each rank of this node: the blocks of the ranks on the lane that it carries. */
int cf_split_lanes(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_lanes *lanes, const struct cf_blocks *blocks);
/* For each node: the blocks of its ranks on a lane. */
int cf_split_shares(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks);
/* For each rank of this node: its block. */
int cf_split_blocks(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_blocks *blocks);
/* For each node: this lane's slice of the concatenated blocks of its ranks. displs are positions
 * among all blocks in rank order, and total is the units of all blocks. Only for consecutive
 * placements. */
int cf_split_lane_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                         const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks);
/* One block per rank of the communicator. */
int cf_split_ranks(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_blocks *blocks);
/* Divides units evenly over n members; the first units % n members have one more. */
int cf_split_even(struct cf_split *split, struct cf_comm *comm, int slot, int n, int units);
/* Member i gets the count of member (first + i) % n of other, which must be in another slot. */
int cf_split_rotated(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_split *other, int first);

/* The units of members first to last - 1, maybe none. */
static inline int cf_split_units(const struct cf_split *split, int first, int last) {
    const int begin = first < split->n ? split->displs[first] : split->total;
    return (last < split->n ? split->displs[last] : split->total) - begin;
}

#endif
