#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include "serve/fortran.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

/* A routine that only Open MPI's Fortran library has, and that we do not define. */
static const char open_mpi_routine[] = "ompi_initialized_f";

enum { UNKNOWN, OPEN_MPI_S, FOREIGN };

/* Decided at the first call. Concurrent threads decide alike. */
static atomic_int owner = UNKNOWN;
static _Atomic(void *) foreign = NULL;

/*
 * Finds the MPI Fortran routines that the program would use without this library. They are among
 * the libraries loaded after ours at program start. Otherwise they are in the library of the
 * caller, for example a Python module with private dependencies.
 */
static void *find_library(const char *name, const void *caller) {
    Dl_info info;
    if (dlsym(RTLD_NEXT, name) != NULL || dladdr(caller, &info) == 0) {
        return RTLD_NEXT;
    }
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return library == NULL ? RTLD_NEXT : library;
}

cf_routine *cf_foreign_routine(const char *name, const void *caller) {
    cf_routine *routine = NULL;
    int known = atomic_load_explicit(&owner, memory_order_acquire);
    if (known == UNKNOWN) {
        void *library = find_library(name, caller);
        known = dlsym(library, open_mpi_routine) != NULL || dlsym(library, name) == NULL
                    ? OPEN_MPI_S
                    : FOREIGN;
        atomic_store(&foreign, library);
        atomic_store_explicit(&owner, known, memory_order_release);
    }
    if (known == FOREIGN) {
        *(void **)&routine = dlsym(atomic_load(&foreign), name);
    }
    return routine;
}

int cf_leave(int (*leave)(MPI_Comm *comm), MPI_Fint *comm) {
    MPI_Comm handle = PMPI_Comm_f2c(*comm);
    const int err = leave(&handle);
    *comm = PMPI_Comm_c2f(handle);
    return err;
}
