/* A tool for Fortran alone, which passes calls on by Fortran's PMPI name or, with C, by C's. */
#include <mpi.h>

extern void pmpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *ierror);
void mpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *ierror);

void mpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *ierror) {
#if defined(BY_C)
    *ierror = PMPI_Bcast(data, *count, MPI_Type_f2c(*type), *root, MPI_Comm_f2c(*comm));
#else
    pmpi_bcast_(data, count, type, root, comm, ierror);
#endif
}
