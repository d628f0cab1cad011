/* The blocks of an all-to-all that pass through this rank as the carrier of a lane. */
#ifndef COLLFORGE_PAIRS_H_INCLUDED
#define COLLFORGE_PAIRS_H_INCLUDED

#include "data/split.h"

/*
 * In an irregular all-to-all a rank knows what it sends and what it receives (struct cf_blocks). A
 * carrier also has to know the blocks from its node's ranks to the ranks on its lane, and from all
 * ranks to its node's ranks on the lane; and each rank the sums of its node's ranks. No rank needs
 * the blocks of all pairs.
 */
struct cf_pairs {
    const struct cf_lanes *lanes;
    const struct cf_blocks *blocks; /* of this rank */
    /* The following are set by cf_pairs_begin. The arrays are NULL if all blocks are equal. */
    int size;    /* ranks of the communicator */
    int sources; /* ranks of this node */
    int on_lane; /* ranks on the lane that this rank carries; 0 if it carries none */
    int targets; /* those of them on this node */
    /* [sources * (CF_PAIRS_SUMS + on_lane)] of each source, in node rank order: the units that it
     * sends, that it receives, and of its blocks to the ranks on the lane, in lanes->order. */
    const int *rows;
    /* [targets * size] of each target: of its blocks by source, in node order. */
    const int *columns;
};

enum { CF_PAIRS_SENT, CF_PAIRS_RECEIVED, CF_PAIRS_SUMS };

/* Collective over the node, unless all blocks are equal: sets what pairs->lanes and pairs->blocks
 * do not say. Returns an MPI error class. */
int cf_pairs_begin(struct cf_pairs *pairs, struct cf_comm *comm);

/* Source and target by their positions above. */
static inline const int *cf_pairs_row(const struct cf_pairs *pairs, int source) {
    return pairs->rows + (MPI_Aint)source * (CF_PAIRS_SUMS + pairs->on_lane);
}

static inline int cf_pair_received(const struct cf_pairs *pairs, int target, int source) {
    return pairs->columns == NULL ? pairs->blocks->each
                                  : pairs->columns[(MPI_Aint)target * pairs->size + source];
}

/* Units from a source to all ranks on the lane, and to those on one node. */
int cf_pairs_on_lane(const struct cf_pairs *pairs, int source);
int cf_pairs_to_node(const struct cf_layout *at, const struct cf_pairs *pairs, int source,
                     int node);
/* Units from a source (in node order) to this node's ranks on the lane. */
int cf_pairs_from_source(const struct cf_pairs *pairs, int source);
/* Units from this node's ranks to all ranks on the lane; from all ranks to this node's on it. */
int cf_outgoing_units(const struct cf_pairs *pairs);
int cf_incoming_units(const struct cf_pairs *pairs);

/* As in split.h. For each rank of this node: all it sends; all it receives; what it sends to the
 * ranks on the lane that this rank carries, if any. */
int cf_split_rows(struct cf_split *split, struct cf_comm *comm, int slot,
                  const struct cf_pairs *pairs);
int cf_split_columns(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_pairs *pairs);
int cf_split_collecting(struct cf_split *split, struct cf_comm *comm, int slot,
                        const struct cf_pairs *pairs);
/* For each node, on carriers: the blocks from this node's ranks to that node's ranks on the lane;
 * from that node's ranks to this node's on the lane. */
int cf_split_departing(struct cf_split *split, struct cf_comm *comm, int slot,
                       const struct cf_pairs *pairs);
int cf_split_arriving(struct cf_split *split, struct cf_comm *comm, int slot,
                      const struct cf_pairs *pairs);

#endif
