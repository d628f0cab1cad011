/*
 * Collforge: the fastest correct implementation of each MPI collective on this cluster.
 *
 * An application needs none of these functions. It preloads or links libcollforge.so, whose
 * MPI_Bcast, MPI_Allreduce, ... run the stored winners. The functions below only report what would
 * run.
 */
#ifndef COLLFORGE_H_INCLUDED
#define COLLFORGE_H_INCLUDED

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COLLFORGE_PUBLIC __attribute__((visibility("default")))

/* The version of the library, for example "0.1.0"; never NULL. */
COLLFORGE_PUBLIC const char *collforge_version(void);

/*
 * Writes into name (at most size bytes, always terminated) the variant that comm would use for a
 * call of the collective ("bcast", "allreduce", ...) with this many bytes (count x type size):
 * "native" or "full_lane[...]". Local, but not to be called while another thread is in a collective
 * on comm. Returns MPI_SUCCESS, or MPI_ERR_ARG for an unknown collective.
 *
 * A call may still be native where a variant is reported. The variant may not apply to the call's
 * op. On a communicator other than MPI_COMM_WORLD the first call with a stored winner is native. So
 * are all calls if the variant needs communicators or a shared-memory window that could not be
 * created. Of MPI_Gatherv, MPI_Scatterv and MPI_Alltoallv, whose bytes are those of the mean block,
 * some calls are native without a look at their sizes. Where a variant was not measured on the
 * layout, the first calls may be native, and the next ones alternate (COLLFORGE_GUARD).
 */
COLLFORGE_PUBLIC int collforge_choice(MPI_Comm comm, const char *collective, size_t bytes,
                                      char *name, size_t size);

#ifdef __cplusplus
}
#endif

#endif
