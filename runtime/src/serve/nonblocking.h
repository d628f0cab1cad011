/* Nonblocking collectives by variants (comm/under_way.h). */
#ifndef COLLFORGE_NONBLOCKING_H_INCLUDED
#define COLLFORGE_NONBLOCKING_H_INCLUDED

#include "serve/dispatch.h"
#include "serve/large.h"

/*
 * Starts MPI_I<collective>, described as for the cf_choose functions. CF_DECLINED, on all ranks
 * alike, if native must: there is no winner, it is on trial, or something of it is not set up,
 * which only a blocking call can do. Otherwise returns an MPI error class. Makes no call that
 * waits.
 */
int cf_start(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
             int count, MPI_Datatype type);
int cf_start_mean(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
                  const int *counts, MPI_Datatype type);
int cf_start_unsized(const struct cf_args *args, MPI_Request *request, int collective,
                     MPI_Comm comm);

#if MPI_VERSION >= 4
/* The same for large-count functions. args lacks counts. */
int cf_start_large(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
                   MPI_Count count, MPI_Datatype type);
int cf_start_large_mean(const struct cf_args *args, MPI_Request *request, int collective,
                        MPI_Comm comm, const MPI_Count *counts, MPI_Datatype type);
#endif

#endif
