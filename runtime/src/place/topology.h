/* The node of each process, and the resulting layout of a communicator. */
#ifndef COLLFORGE_TOPOLOGY_H_INCLUDED
#define COLLFORGE_TOPOLOGY_H_INCLUDED

#include "place/layout.h"

/*
 * Finds the node of every process of MPI_COMM_WORLD: the real ones, or those that
 * COLLFORGE_NODE_MAP of world rank 0 pretends. Also finds how many threads of each process may call
 * MPI at once. Collective over MPI_COMM_WORLD. Returns the same MPI error class on all ranks.
 */
int cf_topology_start(void);
void cf_topology_stop(void);
/* Finds the socket of every process, for the layouts built afterwards, which need it only where
 * winners are stored for it. Collective over MPI_COMM_WORLD, after cf_topology_start. Returns the
 * same MPI error class on all ranks. */
int cf_topology_find_sockets(void);
/* The processes of MPI_COMM_WORLD on this process's node; 1 before cf_topology_start. */
int cf_topology_neighbours(void);

/*
 * Parses `2,1` (block sizes, the last repeating) or `map:0,1,0,1` (one node per rank) into
 * node_of[size]. False if malformed.
 */
bool cf_node_map_parse(const char *text, int size, int *node_of);

/*
 * Fills the layout of an intracommunicator, without communicators and lanes. Local. If a process is
 * from outside MPI_COMM_WORLD, returns MPI_SUCCESS with layout->size == 0.
 */
int cf_layout_build(struct cf_layout *layout, MPI_Comm comm);
/*
 * The same, also before cf_topology_start and for communicators with processes from outside
 * MPI_COMM_WORLD: the ranks then exchange their real nodes. Collective over comm. *of_world, equal
 * on all ranks: all processes are of MPI_COMM_WORLD, and all ranks know their nodes.
 */
int cf_layout_discover(struct cf_layout *layout, MPI_Comm comm, bool *of_world);
/*
 * Turns each NUMA domain of a node into a node of the layout, for ranks bound to one. Collective
 * over comm, the layout's communicator. Returns an MPI error class. The caller frees the layout in
 * any case.
 */
int cf_layout_split_domains(struct cf_layout *layout, MPI_Comm comm);
/* Where the calling thread is bound, as numbers on its node. Without hwloc, now or at compile time,
 * as if it was not bound. */
struct cf_seat {
    int domain; /* the NUMA domain; 0 if bound to none or to several */
    int socket; /* -1 if bound to none or to several, and if there is one only */
};
struct cf_seat cf_seat(void);

#endif
