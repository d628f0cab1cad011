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
 * ---- whether all ranks have the same build (presence.c) ---------------------------------------
 *
 * Checked before they use MPI_COMM_WORLD together, because a node may lack the file or have another
 * version.
 */

/* Call before the first MPI_Init, MPI_Init_thread or MPI_Session_init. A second call does
 * nothing. */
void cf_presence_announce(void);
/* In MPI_Init, on all ranks that have the library, with an equal result: whether all ranks have the
 * same build. Warns otherwise. */
bool cf_presence_agree(void);

#endif
