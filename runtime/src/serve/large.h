/* The MPI-4 functions with counts of type MPI_Count, built on those with int counts. */
#ifndef COLLFORGE_LARGE_H_INCLUDED
#define COLLFORGE_LARGE_H_INCLUDED

#include <limits.h>

#include "base/cf.h"
#include "serve/fast.h"

/* As an int, or -1, an illegal count, if it does not fit. */
static inline int cf_narrow(MPI_Count count) {
    return count < 0 || count > INT_MAX ? -1 : (int)count;
}

/* Fills narrow, [size], and returns it; NULL of NULL. */
static inline const int *cf_narrow_all(const MPI_Count *counts, int *narrow, int size) {
    for (int rank = 0; rank < size && counts != NULL; rank++) {
        narrow[rank] = cf_narrow(counts[rank]);
    }
    return counts == NULL ? NULL : narrow;
}

#if MPI_VERSION >= 4

/* cf_choose. A count that does not fit has too many bytes on all ranks, and so is native. */
static inline const struct cf_choice *cf_choose_large(int collective, MPI_Comm comm,
                                                      MPI_Count count, MPI_Datatype type,
                                                      struct cf_call *call) {
    const int narrow = cf_narrow(count);
    *call = (struct cf_call){0};
    return cf_is_native(collective, comm, narrow, type)
               ? NULL
               : cf_choose(collective, comm, narrow, type, call);
}

/*
 * Chooses and attempts a collective with a count per block. args lacks the counts, which are
 * sendcounts and recvcounts (NULL if the collective has none). Returns CF_DECLINED if native must
 * serve the call.
 */
int cf_attempt_large(int collective, const struct cf_args *args, const MPI_Count *sendcounts,
                     const MPI_Count *recvcounts, struct cf_call *call);

/* cf_count_mean. */
void cf_count_mean_large(int collective, MPI_Comm comm, const MPI_Count *counts, MPI_Datatype type);

#endif

#endif
