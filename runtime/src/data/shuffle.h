/* Steps that no component collective performs: among the ranks of a node, and reorderings on one
 * rank. */
#ifndef COLLFORGE_SHUFFLE_H_INCLUDED
#define COLLFORGE_SHUFFLE_H_INCLUDED

#include "data/split.h"
#include "data/unit.h"

/* The part of each rank of the node to the rank that carries its lane, in node rank order. */
int cf_fold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
            const struct cf_split *parts, const struct cf_unit *unit);
/* The inverse of cf_fold. */
int cf_unfold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
              const struct cf_split *parts, const struct cf_unit *unit);
/* Empty messages to the ranks whose lane this rank carries; the others wait for theirs. */
int cf_release(struct cf_comm *comm, const struct cf_lanes *lanes);
/* count units from one rank of the node to another; nothing but a copy where they are the same. */
int cf_move(struct cf_comm *comm, int source, int target, const void *from, void *to, int count,
            const struct cf_unit *unit);

/* count units of rank v to the v-th rank in the order of the nodes, and back, on all ranks at once.
 */
int cf_permute_to_node_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit);
int cf_permute_to_rank_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit);

/* Blocks by rank: to[i] = from[order[i]]. */
int cf_reorder_to_lanes(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* Blocks by rank: to[order[i]] = from[i]. */
int cf_reorder_to_ranks(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* The blocks of this node's ranks on a lane, or of all ranks on it, out of all blocks in rank
 * order; and back to their places there. */
int cf_collect_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                     void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_collect_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                    void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_place_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                   void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_place_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                  void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* (source rank of this node, target on the lane by node) -> (target node, source, target). */
int cf_regroup_by_target_node(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, const struct cf_blocks *pairs,
                              const struct cf_unit *unit);
/* (source rank in node order, target in this node's share) -> (target, source). */
int cf_regroup_by_target_rank(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, const struct cf_blocks *pairs,
                              const struct cf_unit *unit);

#endif
