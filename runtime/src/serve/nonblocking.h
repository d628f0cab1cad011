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

/* The counts of a large-count function, which struct cf_args lacks. Those that it does not have are 0
 * or NULL. */
struct cf_large_counts {
    MPI_Count sendcount, recvcount;
    const MPI_Count *sendcounts, *recvcounts;
};

/* In a coroutine: the call by the MPI library, over args->comm. large: NULL, or what args lacks. */
typedef int cf_native_call(const struct cf_args *args, const struct cf_large_counts *large);

/* The same where the ranks exchange their sizes, which waits: so native may turn out to serve it when
 * the call is under way, over a hidden communicator. For large-count functions, too. */
int cf_start_exchanged(const struct cf_args *args, MPI_Request *request, int collective,
                       MPI_Comm comm, cf_native_call *native, const struct cf_large_counts *large);

#if MPI_VERSION >= 4
/* The same for large-count functions. args lacks counts. */
int cf_start_large(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
                   MPI_Count count, MPI_Datatype type);
int cf_start_large_mean(const struct cf_args *args, MPI_Request *request, int collective,
                        MPI_Comm comm, const MPI_Count *counts, MPI_Datatype type);
#endif

#endif
