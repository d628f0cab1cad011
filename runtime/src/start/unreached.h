/* Calls that pass this library by on some rank, because a tool before it defines their function. */
#ifndef COLLFORGE_UNREACHED_H_INCLUDED
#define COLLFORGE_UNREACHED_H_INCLUDED

#include <stdbool.h>

/*
 * Sets cf_runtime.unreached, and unstarted if nonblocking collectives are wanted: such calls are
 * native on all ranks. The first rank with such a tool prints a warning for one collective.
 * Collective over MPI_COMM_WORLD.
 */
void cf_unreached_find(int rank, bool nonblocking);

#endif
