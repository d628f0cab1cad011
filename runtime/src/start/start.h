/*
 * The room start: MPI_Init and MPI_Finalize, in which world rank 0 reads the environment and the
 * database and all ranks agree on what holds.
 */
#ifndef COLLFORGE_START_H_INCLUDED
#define COLLFORGE_START_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>

/*
 * Makes cf_comm_get usable: learns the nodes of MPI_COMM_WORLD (COLLFORGE_NODE_MAP included).
 * Collective over MPI_COMM_WORLD. MPI_Init does it when there is a winner or COLLFORGE_FORCE; the
 * timing driver, which needs layouts whatever the environment says, calls it after MPI_Init.
 * Returns an MPI error class, the same on all ranks. A second call does nothing. MPI_Finalize
 * undoes it.
 */
int cf_runtime_activate(void);

/*
 * Starts the runtime of a program whose MPI_Init another tool has kept from it, at the first
 * collective on MPI_COMM_WORLD, which all ranks come to. Whether the mode is on then.
 */
bool cf_runtime_start(MPI_Comm comm);

#endif
