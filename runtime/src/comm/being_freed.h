/*
 * Communicators whose attributes are being deleted, by the thread that does it. The handle alone
 * cannot tell, because a new communicator may soon have it. An attribute cannot tell either once
 * ours is deleted: MPICH frees the list of attributes as it walks along it. The calls in question
 * come from the program's delete callbacks, so the MPI library's function that calls these is still
 * on the thread's stack.
 */
#ifndef COLLFORGE_BEING_FREED_H_INCLUDED
#define COLLFORGE_BEING_FREED_H_INCLUDED

#include "base/runtime.h"

/* Around the call that frees the communicator. */
void cf_freeing_begin(MPI_Comm comm);
void cf_freeing_end(MPI_Comm comm);
/* From the attribute's delete callback, outside of begin and end: MPICH calls it in MPI_Wait and
 * others if a request was pending when the communicator was freed, and both libraries free
 * communicators of their own, as in MPI_File_close. */
void cf_freeing_deferred(MPI_Comm comm);
/* Whether this thread is freeing it now. */
bool cf_is_being_freed(MPI_Comm comm);

#endif
