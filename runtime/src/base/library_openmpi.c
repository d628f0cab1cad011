/* Open MPI. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <mpi.h>

#if defined(OPEN_MPI)

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/library.h"
#include "collforge.h"

static bool wrote(const char *version) {
    return strncmp(version, "Open MPI", strlen("Open MPI")) == 0;
}

/* ---- MPI_Comm_idup --------------------------------------------------------------------------- */

/* Never reset: the end of the request is not visible here. */
static atomic_bool idup_begun;

static bool may_be_making(void) {
    return atomic_load(&idup_begun);
}

/* Wrapped under both names, because Open MPI's Fortran routines and other tools call PMPI's. */
#define WRAP(name, parameters, ...)                                                                \
    COLLFORGE_PUBLIC int name parameters {                                                         \
        int(*next) parameters = NULL;                                                              \
        atomic_store(&idup_begun, true);                                                           \
        cf_chain(#name, &next);                                                                    \
        return next == NULL ? MPI_ERR_INTERN : next(__VA_ARGS__);                                  \
    }

WRAP(MPI_Comm_idup, (MPI_Comm comm, MPI_Comm *made, MPI_Request *request), comm, made, request)
WRAP(PMPI_Comm_idup, (MPI_Comm comm, MPI_Comm *made, MPI_Request *request), comm, made, request)
#if OMPI_MAJOR_VERSION >= 5 /* has this MPI-4 function */
WRAP(MPI_Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *request),
     comm, info, made, request)
WRAP(PMPI_Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *request),
     comm, info, made, request)
#endif

/* ---- shared memory --------------------------------------------------------------------------- */

static char folder[PATH_MAX] = "/dev/shm";

static void read_folder(void) {
    MPI_T_cvar_handle handle = NULL;
    int level = 0;
    int index = 0;
    int length = 0;
    char text[PATH_MAX] = "";
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) {
        return;
    }
    if (MPI_T_cvar_get_index("osc_sm_backing_directory", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &length) == MPI_SUCCESS) {
        if (length <= PATH_MAX && MPI_T_cvar_read(handle, text) == MPI_SUCCESS && text[0] == '/') {
            memcpy(folder, text, sizeof folder);
        }
        (void)MPI_T_cvar_handle_free(&handle);
    }
    (void)MPI_T_finalize();
}

static const char *shared_folder(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_folder);
    return folder;
}

/* ---- PMIx ------------------------------------------------------------------------------------ */

/*
 * Two PMIx libraries in one process would steal each other's connection, so Open MPI's own one is
 * used. Open MPI 4 loads it in MPI_Init as a dependency of this component. The MPI_Init of Open MPI
 * 5 fails if PMIx was initialised before. It is linked with PMIx, so its calls come here first.
 */
#if OMPI_MAJOR_VERSION == 4
#define OPEN_PMIX open_pmix
static void *open_pmix(void) {
    static const char *const folders[] = {"openmpi", "openmpi/lib/openmpi3"};
    const char *library = cf_library_file();
    char *file = library == NULL ? NULL : realpath(library, NULL);
    if (file == NULL) {
        return NULL;
    }
    const int length = (int)(strrchr(file, '/') - file);
    void *component = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && component == NULL; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%.*s/%s/mca_pmix_ext3x.so", length, file, folders[i]);
        component = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
    free(file);
    return component;
}
#else
#define OPEN_PMIX NULL

int PMIx_Commit(void);

COLLFORGE_PUBLIC int PMIx_Commit(void) {
    enum { FAILED = -1 };
    int (*next)(void) = NULL;
    if (cf_before_commit != NULL) {
        cf_before_commit();
    }
    cf_chain("PMIx_Commit", &next);
    return next == NULL ? FAILED : next();
}
#endif

/* It speaks no PMI-1: under Hydra each of its worlds has one rank, and Hydra treats a process that
 * sends init but no finalize as dead. */
const struct cf_library cf_library = {
    .name = "openmpi",
    .title = "Open MPI",
    .wrote = wrote,
    .searches_groups = true,
    .create_group_copies_attributes = true, /* Open MPI 4.1.4 */
    .freed_on_return = true,
    .may_be_making = may_be_making,
    .shared_folder = shared_folder,
    .has_fortran_of_its_own = true,
    .refuses_windows_of_threads = OMPI_MAJOR_VERSION < 5,
    .open_pmix = OPEN_PMIX,
    .commits = OMPI_MAJOR_VERSION >= 5,
};

#endif
