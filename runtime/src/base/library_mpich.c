/* MPICH, and what is derived from it: Intel MPI, MVAPICH, Cray MPICH. */
#include <mpi.h>

#if defined(MPICH_NUMVERSION) || defined(MPICH_VERSION)

#include <string.h>

#include "base/library.h"

/* Derived libraries have names of their own. */
static bool wrote(const char *version) {
    return strncmp(version, "Open MPI", strlen("Open MPI")) != 0;
}

static const char *shared_folder(void) {
    return "/dev/shm";
}

const struct cf_library cf_library = {
    .name = "mpich",
    .title = "MPICH",
    .wrote = wrote,
    .shared_folder = shared_folder,
    .cuts_forwarded_parts = true, /* MPICH 4.0.2 */
    .speaks_pmi = true,
    .exchanges_in_sessions = true,
};

#endif
