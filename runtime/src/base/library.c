#define _GNU_SOURCE /* dladdr */
#include "base/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* A file of this name has MPI-5's standard ABI, whose handles are other numbers. */
static const char abi_file[] = "mpi_abi";

/* Whether this rank prints the warning: rank 0, or every rank if the launcher does not tell the
 * rank before MPI_Init. */
static bool speaks(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *rank = getenv(names[i]);
        if (rank != NULL) {
            return strcmp(rank, "0") == 0;
        }
    }
    return true;
}

/* The longest in any MPI library, because any of them may write it. */
enum { LONGEST_VERSION = 8192 };

const char *cf_library_file(void) {
    Dl_info info;
    void *function = NULL;
    int (*const any_function)(MPI_Comm, int *) = PMPI_Comm_rank;

    memcpy(&function, &any_function, sizeof function);
    return dladdr(function, &info) == 0 ? NULL : info.dli_fname;
}

static bool is_abi_file(const char *path) {
    const char *slash = strrchr(path, '/');
    return strstr(slash == NULL ? path : slash, abi_file) != NULL;
}

static bool compare(void) {
    char version[LONGEST_VERSION] = "";
    int length = 0;
    const char *file = cf_library_file();
    const bool is_abi = file != NULL && is_abi_file(file);
    const bool known = PMPI_Get_library_version(version, &length) == MPI_SUCCESS;
    if (known && !is_abi && cf_library.wrote(version)) {
        return true;
    }
    version[strcspn(version, "\n")] = '\0';
    if (speaks()) {
        cf_warn(
            "this library is built for %s, the program runs %s%.100s; native collectives "
            "(preload the one that 'collforge build --mpi' makes for it)",
            cf_library.title, is_abi ? "MPI's standard ABI in " : "", version);
    }
    return false;
}

/* Concurrent threads decide alike. */
bool cf_library_is_ours(void) {
    enum { UNKNOWN, OURS, FOREIGN };
    static atomic_int owner = UNKNOWN;
    int known = atomic_load(&owner);

    if (known == UNKNOWN) {
        known = compare() ? OURS : FOREIGN;
        atomic_store(&owner, known);
    }
    return known == OURS;
}
