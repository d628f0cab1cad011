/*
 * The info keys of communicators that this library knows. mpi_assert_memory_alloc_kinds (MPI-4.1,
 * section 12.4.3): a program asserts which kinds of memory the buffers are in. collforge=native:
 * all collectives of the communicator are native, and up to MPI-3.1 those of its duplicates.
 */
#ifndef COLLFORGE_KINDS_H_INCLUDED
#define COLLFORGE_KINDS_H_INCLUDED

#include "comm/comm.h"

/* Whether the program asserts that no buffer is in device memory. */
bool cf_kinds_are_of_host(struct cf_state *state);

#endif
