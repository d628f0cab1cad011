/* Nonblocking collectives in the profile. */
#ifndef COLLFORGE_NONBLOCKING_H_INCLUDED
#define COLLFORGE_NONBLOCKING_H_INCLUDED

#include "comm/comm.h"

/* Add a nonblocking call, described as for the cf_choose functions, to the profile. Local. */
void cf_count(int collective, MPI_Comm comm, int count, MPI_Datatype type);
void cf_count_mean(int collective, MPI_Comm comm, const int *counts, MPI_Datatype type);
void cf_count_unsized(int collective, MPI_Comm comm);

#endif
