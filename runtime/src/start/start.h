/*
 * The room start: the beginning and end of MPI. World rank 0 reads the environment and the database
 * and broadcasts both, so that all ranks decide alike.
 */
#ifndef COLLFORGE_START_H_INCLUDED
#define COLLFORGE_START_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>

/*
 * Makes cf_comm_get usable: finds the nodes of MPI_COMM_WORLD (COLLFORGE_NODE_MAP included).
 * Collective over MPI_COMM_WORLD. MPI_Init calls it if there is a winner or COLLFORGE_FORCE. The
 * timing driver, which always needs layouts, calls it after MPI_Init. Returns an MPI error class,
 * equal on all ranks. A second call does nothing. MPI_Finalize undoes it.
 */
int cf_runtime_activate(void);

/*
 * For a program whose MPI_Init another tool has intercepted: starts the runtime at the first
 * collective on MPI_COMM_WORLD, which all ranks call. Returns whether the mode is then on.
 */
bool cf_runtime_start(MPI_Comm comm);

#endif
