/*
 * mpi_assert_memory_alloc_kinds (MPI-4.1, section 12.4.3): an info key by which a program asserts
 * which kinds of memory a communicator's buffers are in.
 */
#ifndef COLLFORGE_KINDS_H_INCLUDED
#define COLLFORGE_KINDS_H_INCLUDED

#include "comm/comm.h"

/* Whether the program asserts that no buffer is in device memory. */
bool cf_kinds_are_of_host(struct cf_state *state);

#endif
