/*
 * Whether all ranks have this library, and the same build of it, before they use MPI_COMM_WORLD
 * together: a node may lack the file, or have another version.
 */
#ifndef COLLFORGE_PRESENCE_H_INCLUDED
#define COLLFORGE_PRESENCE_H_INCLUDED

#include <stdbool.h>

/* Before MPI_Init. */
void cf_presence_announce(void);
/*
 * On all ranks that have the library, alike: whether all have the same one. Warns otherwise.
 * after_init: this is MPI_Init, to which all ranks come at about the same time.
 */
bool cf_presence_agree(bool after_init);

#endif
