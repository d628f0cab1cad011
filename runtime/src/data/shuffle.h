/* Steps without a component collective: point-to-point among the ranks of a node, and reorderings
 * on one rank. A lane's carrier is the node rank that communicates on the lane for its node. */
#ifndef COLLFORGE_SHUFFLE_H_INCLUDED
#define COLLFORGE_SHUFFLE_H_INCLUDED

#include "data/pairs.h"
#include "data/unit.h"

/* Sends the part of each rank of the node to the carrier of its lane, in node rank order. */
int cf_fold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
            const struct cf_split *parts, const struct cf_unit *unit);
/* The inverse of cf_fold. */
int cf_unfold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
              const struct cf_split *parts, const struct cf_unit *unit);
/* Empty messages from each lane's carrier to the other ranks on the lane, which wait for them. */
int cf_release(struct cf_comm *comm, const struct cf_lanes *lanes);
/* Moves count units from one rank of the node to another. Only a copy if they are the same rank. */
int cf_move(struct cf_comm *comm, int source, int target, const void *from, void *to, int count,
            const struct cf_unit *unit);

/* Steps of a reduce whose root combines the vectors of its node (Träff and Hunold, 2020, section
 * III-C). The op commutes. */

/* Copies this node rank's slice of a vector. */
int cf_own_slice(struct cf_comm *comm, const void *from, void *to, const struct cf_split *slices,
                 const struct cf_unit *unit);
/*
 * On one node of at least two ranks: combines the ranks' vectors in `to` on the root, without each
 * rank's own slice. The other ranks send theirs in turn, so that the root needs one more vector.
 */
int cf_reduce_rest(struct cf_comm *comm, const void *from, void *to, const struct cf_split *slices,
                   const struct cf_unit *unit, MPI_Op op, int root);

/* Sends count units of rank v to the v-th rank in node order, on all ranks at once; and the
 * inverse. */
int cf_permute_to_node_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit);
int cf_permute_to_rank_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit);

/* to[i] = from[order[i]], for blocks in rank order. */
int cf_reorder_to_lanes(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* to[order[i]] = from[i], the inverse. */
int cf_reorder_to_ranks(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* Collect: copies the blocks of a lane, or of this node's ranks on it, out of all blocks in rank
 * order. Place: copies them back. */
int cf_collect_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                     void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_collect_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                    void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_place_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                   void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_place_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                  void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* From (source rank of this node, target on the lane by node) to (target node, source, target). */
int cf_regroup_by_target_node(struct cf_comm *comm, const struct cf_pairs *pairs, const void *from,
                              void *to, const struct cf_unit *unit);
/* From (source rank in node order, target in this node's share of the lane) to (target, source). */
int cf_regroup_by_target_rank(struct cf_comm *comm, const struct cf_pairs *pairs, const void *from,
                              void *to, const struct cf_unit *unit);

#endif
