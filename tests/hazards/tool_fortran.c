/* A tool for Fortran alone. */
extern void pmpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *ierror);
void mpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *ierror);

void mpi_bcast_(void *data, int *count, int *type, int *root, int *comm, int *ierror) {
    pmpi_bcast_(data, count, type, root, comm, ierror);
}
