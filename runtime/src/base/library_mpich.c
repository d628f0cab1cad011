/* MPICH, and what is derived from it: Intel MPI, MVAPICH, Cray MPICH. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <mpi.h>

#if defined(MPICH_NUMVERSION) || defined(MPICH_VERSION)

#include <dlfcn.h>
#include <string.h>

#include "base/chain.h"
#include "base/library.h"
#include "base/symbol.h"
#include "collforge.h"

/* Derived libraries have names of their own. */
static bool wrote(const char *version) {
    return strncmp(version, "Open MPI", strlen("Open MPI")) != 0;
}

static const char *shared_folder(void) {
    return "/dev/shm";
}

/* It aborts where a request of the array is null and a generalized one under way (4.0.2, 5.0). Both
 * names: routines of mpi_f08 call PMPI's. */
#define WRAP(name)                                                                                 \
    COLLFORGE_PUBLIC int name(int n, MPI_Request requests[], MPI_Status statuses[]) {              \
        static int (*next)(int, MPI_Request *, MPI_Status *);                                      \
        if (next == NULL) {                                                                        \
            cf_chain(#name, &next);                                                                \
        }                                                                                          \
        if (cf_before_waitall != NULL) {                                                           \
            cf_before_waitall(n, requests);                                                        \
        }                                                                                          \
        return next == NULL ? MPI_ERR_INTERN : next(n, requests, statuses);                        \
    }

/* clang-format off */
WRAP(MPI_Waitall)
__attribute__((weak)) WRAP(PMPI_Waitall)

#if MPICH_NUMVERSION >= 40300000
static int (*advance_one)(void);
/* clang-format on */
static int (*is_complete)(MPI_Request); /* NULL: no hook, and any call may make progress */

static bool has_completed(MPI_Request request) {
    return is_complete == NULL || request == MPI_REQUEST_NULL || is_complete(request);
}

static int make_progress(MPIX_Async_thing thing) {
    (void)thing;
    return advance_one() < 0 ? MPIX_ASYNC_DONE : MPIX_ASYNC_NOPROGRESS;
}

/* Found at run time: libraries of this ABI need not have it. */
static bool call_in_progress(int (*advance)(void)) {
    int (*start)(MPIX_Async_poll_function *, void *, MPIX_Stream) = NULL;
    if (!cf_symbol(RTLD_DEFAULT, "MPIX_Async_start", &start) ||
        !cf_symbol(RTLD_DEFAULT, "MPIX_Request_is_complete", &is_complete)) {
        return false;
    }
    if (advance == NULL) {
        return true;
    }
    advance_one = advance;
    return start(make_progress, NULL, MPIX_STREAM_NULL) == MPI_SUCCESS;
}
#endif

const struct cf_library cf_library = {
    .name = "mpich",
    .title = "MPICH",
    .wrote = wrote,
#if MPICH_NUMVERSION >= 40300000
    .call_in_progress = call_in_progress,
    .has_completed = has_completed,
#endif
    .shared_folder = shared_folder,
    .cuts_forwarded_parts = true, /* MPICH 4.0.2 */
    .speaks_pmi = true,
    .exchanges_in_sessions = true,
};

#endif
