/*
 * Component collectives whose derived datatypes reorder the blocks (Träff and Hunold, 2020, listing
 * 3): no copies before or after. They need equal nodes of n consecutive ranks each. Block r of a
 * buffer in rank order is that of rank r; `block` units each. With k lanes, the blocks of lane m
 * are those of the ranks m, m + k, m + 2 k ... of each node: its share of the lane. A buffer of a
 * lane has them by node. Carriers have such buffers, the node's other ranks none.
 *
 * Empty blocks are not sent. The sender has 0 elements then, the receiver one of an empty type;
 * MPICH 4.0.2's MPI_Gather waits for such a message forever.
 */
#ifndef COLLFORGE_BY_DATATYPE_H_INCLUDED
#define COLLFORGE_BY_DATATYPE_H_INCLUDED

#include "data/unit.h"

/* Over the lane: the shares in from, each block at its rank's place in `to`. With a lane for each
 * rank, from may be this rank's place there. */
int cf_allgather_apart(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                       void *to, int block, const struct cf_unit *unit);
/* Over the node, in place: carriers have their lane's blocks at their places; all get the others.
 */
int cf_allgather_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, void *data,
                             int block, const struct cf_unit *unit);
/* Over the node: from has the blocks of the carrier's lane; `to` of the root, all blocks. */
int cf_gather_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                          void *to, int block, const struct cf_unit *unit, int root);
/* The inverse. */
int cf_scatter_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                           void *to, int block, const struct cf_unit *unit, int root);
/* Over the node: to each carrier its lane's blocks. `to` has them by source. */
int cf_alltoall_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                            void *to, int block, const struct cf_unit *unit);
/* Over the lane, after cf_alltoall_interleaved: to each node its blocks, by source. */
int cf_alltoall_apart(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                      void *to, int block, const struct cf_unit *unit);
/* On the node, after cf_alltoall_apart: to each rank of the carrier's share its blocks, by source.
 */
int cf_hand_out_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                            void *to, int block, const struct cf_unit *unit);

#endif
