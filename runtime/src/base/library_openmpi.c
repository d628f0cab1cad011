/* Open MPI. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
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
#include "base/symbol.h"
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

/* ---- progress -------------------------------------------------------------------------------- */

static int (*advance_one)(void);

static int make_progress(void) {
    const int ended = advance_one();
    return ended > 0 ? ended : 0;
}

/* What its own nonblocking collectives use, in all versions since 1.0. Stays registered. */
static bool call_in_progress(int (*advance)(void)) {
    int (*add)(int (*)(void)) = NULL;
    if (!cf_symbol(RTLD_DEFAULT, "opal_progress_register", &add)) {
        return false;
    }
    if (advance != NULL && advance_one == NULL) {
        advance_one = advance;
        return add(make_progress) == 0;
    }
    return true;
}

/* ---- shared memory --------------------------------------------------------------------------- */

static char folder[PATH_MAX] = "/dev/shm";
static char components[2 * PATH_MAX]; /* the parameters osc and shmem, if one is set */

/*
 * Reads a text parameter, after MPI_Init. The functions are what Open MPI's MPI_T calls. MPI_T
 * itself would load all components first: a quarter of a second, and memory that a job may lack.
 */
static void read_text(const char *name, char text[PATH_MAX]) {
    int (*find)(const char *, int *) = NULL;
    int (*get)(int, const void *, void *, const char **) = NULL;
    char *const *value = NULL;
    int index = -1;
    if (cf_symbol(RTLD_DEFAULT, "mca_base_var_find_by_name", &find) &&
        cf_symbol(RTLD_DEFAULT, "mca_base_var_get_value", &get) && find(name, &index) == 0 &&
        get(index, &value, NULL, NULL) == 0 && value != NULL && *value != NULL) {
        (void)snprintf(text, PATH_MAX, "%s", *value);
    }
}

static void read_parameters(void) {
    char text[PATH_MAX] = "";
    char osc[PATH_MAX] = "";
    char shmem[PATH_MAX] = "";
    read_text("osc_sm_backing_directory", text);
    read_text("osc", osc);
    read_text("shmem", shmem);
    if (*osc != '\0' || *shmem != '\0') {
        (void)snprintf(components, sizeof components, "%s;%s", osc, shmem);
    }
    if (text[0] == '/') {
        memcpy(folder, text, sizeof folder);
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *shared_folder(void) {
    (void)pthread_once(&once, read_parameters);
    return folder;
}

static const char *windows_by(void) {
    (void)pthread_once(&once, read_parameters);
    return components;
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
    .call_in_progress = call_in_progress,
    .shared_folder = shared_folder,
    .windows_by = windows_by,
    .has_fortran_of_its_own = true,
    .refuses_windows_of_threads = OMPI_MAJOR_VERSION < 5,
    .open_pmix = OPEN_PMIX,
    .commits = OMPI_MAJOR_VERSION >= 5,
    .exchanges_in_sessions = OMPI_MAJOR_VERSION >= 5,
};

#endif
