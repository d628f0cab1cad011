/*
 * mpi_assert_memory_alloc_kinds (MPI-4.1, section 12.4.3): a program's assertion, in the info of a
 * communicator, of the kinds of memory that its buffers are in.
 */
#ifndef COLLFORGE_KINDS_H_INCLUDED
#define COLLFORGE_KINDS_H_INCLUDED

#include "comm/comm.h"

/* Whether it says that no buffer is in device memory. */
bool cf_kinds_are_of_host(struct cf_state *state);

#endif
