/*
 * Whether all ranks have the same build of this library. It is checked before they use
 * MPI_COMM_WORLD together, because a node may lack the file or have another version.
 */
#ifndef COLLFORGE_PRESENCE_H_INCLUDED
#define COLLFORGE_PRESENCE_H_INCLUDED

#include <stdbool.h>

/* Call before the first MPI_Init, MPI_Init_thread or MPI_Session_init. A second call does
 * nothing. */
void cf_presence_announce(void);
/*
 * On all ranks that have the library, with an equal result: whether all ranks have the same build.
 * Warns otherwise. after_init: called from MPI_Init, which all ranks reach at about the same time.
 */
bool cf_presence_agree(bool after_init);

#endif
