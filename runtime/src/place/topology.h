/* Which process is on which node, and how a communicator therefore lies on the nodes. */
#ifndef COLLFORGE_TOPOLOGY_H_INCLUDED
#define COLLFORGE_TOPOLOGY_H_INCLUDED

#include "place/layout.h"

/*
 * Learns the node of every process of MPI_COMM_WORLD: the real ones, or those COLLFORGE_NODE_MAP of
 * world rank 0 pretends; and how many threads all of them may have inside MPI. Collective over
 * MPI_COMM_WORLD; returns the same MPI error class on all ranks.
 */
int cf_topology_start(void);
void cf_topology_stop(void);

/*
 * Reads `2,1` (block sizes, the last repeating) or `map:0,1,0,1` (one node per rank) into
 * node_of[size]. False for anything else.
 */
bool cf_node_map_parse(const char *text, int size, int *node_of);

/*
 * Fills the layout of an intracommunicator, without its communicators and lanes. Local. A
 * communicator with a process from outside MPI_COMM_WORLD gives MPI_SUCCESS and layout->size == 0.
 */
int cf_layout_build(struct cf_layout *layout, MPI_Comm comm);
/*
 * The same, also before cf_topology_start: then the ranks tell each other their real nodes.
 * Collective over the communicator, which may have processes from outside MPI_COMM_WORLD; *of_world
 * on all ranks alike: whether it has none, and all know their nodes.
 */
int cf_layout_discover(struct cf_layout *layout, MPI_Comm comm, bool *of_world);
/*
 * Makes each NUMA domain of a node a node of its own, for the ranks that are bound to one.
 * Collective over the communicator that the layout is of. Returns an MPI error class; the layout
 * has to be freed in any case.
 */
int cf_layout_split_domains(struct cf_layout *layout, MPI_Comm comm);
#endif
