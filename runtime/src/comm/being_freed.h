/*
 * The mark of a communicator that is being freed: a suffix of its name. The handle cannot mark it,
 * because a new communicator may soon have it. Attributes cannot mark it either, because MPICH is
 * deleting them, maybe only inside MPI_Wait, after the last request on the communicator.
 */
#ifndef COLLFORGE_BEING_FREED_H_INCLUDED
#define COLLFORGE_BEING_FREED_H_INCLUDED

#include "base/runtime.h"

bool cf_is_being_freed(MPI_Comm comm);
/* Adds the mark if it is not there. before: room for the name until now, or NULL. Returns whether
 * the name could be read and set. */
bool cf_mark_being_freed(MPI_Comm comm, char *before);

#endif
