/* The bytes by which the variant of a call is chosen. */
#ifndef COLLFORGE_CALL_BYTES_H_INCLUDED
#define COLLFORGE_CALL_BYTES_H_INCLUDED

#include <mpi.h>
#include <stdint.h>

/*
 * Of a block, or the mean of all blocks. CF_UNSIZED_BYTES for collectives without data, and where
 * the ranks have to exchange their sizes. counts: NULL, or those of all ranks. Negative if an
 * argument is illegal. Local.
 */
int64_t cf_call_bytes(int collective, int count, MPI_Datatype type, const int *counts, int ranks);

#endif
