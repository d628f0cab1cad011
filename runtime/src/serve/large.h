/* The functions of MPI-4 that take counts of type MPI_Count, on top of those that take ints. */
#ifndef COLLFORGE_LARGE_H_INCLUDED
#define COLLFORGE_LARGE_H_INCLUDED

#include <limits.h>

#include "base/cf.h"
#include "serve/fast.h"

#if MPI_VERSION >= 4

/* As an int; where it does not fit -1, which is no legal count. */
static inline int cf_narrow(MPI_Count count) {
    return count < 0 || count > INT_MAX ? -1 : (int)count;
}

/* cf_choose. Counts that do not fit have bytes that do not, and so are native on all ranks. */
static inline const struct cf_choice *cf_choose_large(int collective, MPI_Comm comm,
                                                      MPI_Count count, MPI_Datatype type) {
    const int narrow = cf_narrow(count);
    return cf_is_native(collective, comm, narrow, type) ? NULL
                                                        : cf_choose(collective, comm, narrow, type);
}

/*
 * Chooses and attempts a collective whose blocks differ: args lacks its counts, which are
 * sendcounts and recvcounts (NULL where the collective has none). CF_DECLINED for a call that is
 * left to native.
 */
int cf_attempt_large(int collective, const struct cf_args *args, const MPI_Count *sendcounts,
                     const MPI_Count *recvcounts);

#endif

#endif
