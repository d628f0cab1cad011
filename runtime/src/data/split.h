/* How the units of a buffer belong to the members of a node or a lane. */
#ifndef COLLFORGE_SPLIT_H_INCLUDED
#define COLLFORGE_SPLIT_H_INCLUDED

#include "data/blocks.h"

/* How the units of a buffer belong to the members of a communicator, in member order. */
struct cf_split {
    int n;
    int *counts;
    int *displs;
    int total;
    bool uniform; /* all counts are equal: alike on all members, so the regular collective may be
                     used */
    bool alike;   /* cut as the first count, which is the longest, all parts fall into the same
                     pieces, but that some end earlier */
};

/* Each takes memory from a slot. The member order is that of node_comm (n = ranks of this node) or
 * lane_comm (n = nodes). */
int cf_split_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int units);
/* Each rank of this node: the blocks of the ranks on the lane that it carries. */
int cf_split_lanes(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_lanes *lanes, const struct cf_blocks *blocks);
/* Each node: the blocks of its share of a lane. */
int cf_split_shares(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks);
/* Each rank of this node: its block; all that it sends; all that it receives. */
int cf_split_blocks(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_blocks *blocks);
int cf_split_rows(struct cf_split *split, struct cf_comm *comm, int slot,
                  const struct cf_blocks *pairs);
int cf_split_columns(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_blocks *pairs);
/* Each rank of this node: what it sends to the ranks on the lane that this rank carries, if any. */
int cf_split_collecting(struct cf_split *split, struct cf_comm *comm, int slot,
                        const struct cf_lanes *lanes, int lane, const struct cf_blocks *pairs);
/* Each node: the blocks from every rank of this node to that node's share of a lane. */
int cf_split_departing(struct cf_split *split, struct cf_comm *comm, int slot,
                       const struct cf_lanes *lanes, int lane, const struct cf_blocks *pairs);
/* Each node: the blocks from every rank of that node to this node's share of a lane. */
int cf_split_arriving(struct cf_split *split, struct cf_comm *comm, int slot,
                      const struct cf_lanes *lanes, int lane, const struct cf_blocks *pairs);
/* Each node: the slice of this lane of its ranks' blocks, cut as one vector; displs are places
 * among all blocks in rank order, and total is that of all. For consecutive placements. */
int cf_split_lane_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                         const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks);
/* A block for each rank of the communicator: of a row, to send, or of a column, to receive. */
int cf_split_ranks(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_blocks *blocks);
/* units over n members, the first units % n of them with one more. */
int cf_split_even(struct cf_split *split, struct cf_comm *comm, int slot, int n, int units);
/* Member i of it is member (first + i) % n of another split, which is in another slot. */
int cf_split_rotated(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_split *other, int first);

/* Units of the members from first to last - 1, which may be none. */
static inline int cf_split_units(const struct cf_split *split, int first, int last) {
    const int begin = first < split->n ? split->displs[first] : split->total;
    return (last < split->n ? split->displs[last] : split->total) - begin;
}

#endif
