#define _GNU_SOURCE /* dladdr */
#include "base/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void (*cf_before_commit)(void) = NULL;
void (*cf_before_waitall)(int, const MPI_Request *) = NULL;

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

/* A function that this library does not define itself. */
static const char mpi_function[] = "PMPI_Get_library_version";

/* The file whose MPI functions a loaded file calls. False where that cannot be told, and for the
 * program itself, which cannot be opened: this library is among its own. */
static bool find_called(const char *file, Dl_info *called) {
    void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    void *function = library == NULL ? NULL : dlsym(library, mpi_function);
    const bool found = function != NULL && dladdr(function, called) != 0;
    if (library != NULL) {
        (void)dlclose(library);
    }
    return found;
}

/* The MPI library that this library is linked with. */
static bool find_own(Dl_info *own) {
    void *function = dlsym(RTLD_NEXT, mpi_function);
    return function != NULL && dladdr(function, own) != 0;
}

/*
 * Whether the MPI_Init that is called next is that of the MPI library, or of a tool that calls it.
 * A serial program has a stub of MPI, and a plugin may bring another MPI library: then nothing of
 * this MPI library may be called, although it is loaded, because this library is linked with it.
 */
static bool is_called_next(void) {
    Dl_info own;
    Dl_info next;
    Dl_info called;
    void *init = dlsym(RTLD_NEXT, "MPI_Init");
    if (init == NULL || !find_own(&own) || dladdr(init, &next) == 0 ||
        next.dli_fbase == own.dli_fbase) {
        return true; /* the library itself, or a program that is linked with all of it */
    }
    return find_called(next.dli_fname, &called) && called.dli_fbase == own.dli_fbase;
}

void cf_library_check_caller(const void *caller) {
    Dl_info own;
    Dl_info info;
    Dl_info other;
    if (find_own(&own) && dladdr(caller, &info) != 0 && find_called(info.dli_fname, &other) &&
        other.dli_fbase != own.dli_fbase) {
        cf_warn(
            "%s is linked with %s, but the preloaded libcollforge.so brings %s, which its calls "
            "would reach; the process ends here: preload the library that is built for the former, "
            "or none",
            info.dli_fname, other.dli_fname, own.dli_fname);
        exit(1);
    }
}

static bool is_abi_file(const char *path) {
    const char *slash = strrchr(path, '/');
    return strstr(slash == NULL ? path : slash, abi_file) != NULL;
}

static bool compare(void) {
    if (!is_called_next()) {
        return false;
    }
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
