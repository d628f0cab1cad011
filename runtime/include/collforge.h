/*
 * Collforge: the fastest correct implementation of each MPI collective on this cluster.
 *
 * An application needs none of this: preload or link libcollforge.so and its MPI_Bcast,
 * MPI_Allreduce, ... run the stored winners. The functions below only tell what would run.
 */
#ifndef COLLFORGE_H_INCLUDED
#define COLLFORGE_H_INCLUDED

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COLLFORGE_PUBLIC __attribute__((visibility("default")))

/* The version of the library, e.g. "0.1.0"; never NULL. */
COLLFORGE_PUBLIC const char *collforge_version(void);

/*
 * Writes into name (at most size bytes, always terminated) the variant that a call of the
 * collective
 * ("bcast", "allreduce", ...) with this many bytes (count x type size, as in the call) takes on
 * comm: "native" or "full_lane[...]". Local; makes no communication. Whether the variant applies to
 * one particular call may still depend on its op; the first call that a stored winner would
 * serve on a communicator other than MPI_COMM_WORLD is native; and so are all where the variant
 * cannot do without what could not be made: communicators, or the window of shared_window. Returns
 * MPI_SUCCESS, or MPI_ERR_ARG for an unknown collective.
 */
COLLFORGE_PUBLIC int collforge_choice(MPI_Comm comm, const char *collective, size_t bytes,
                                      char *name, size_t size);

#ifdef __cplusplus
}
#endif

#endif
