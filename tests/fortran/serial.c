/* Stands in for MPI in serial builds of Fortran programs, as libmpiseq.so of MUMPS does. */
void mpi_init_(int *ierror);
void mpi_barrier_(const int *comm, int *ierror);

void mpi_init_(int *ierror) {
    *ierror = 71;
}

void mpi_barrier_(const int *comm, int *ierror) {
    *ierror = *comm == 5 ? 72 : 0;
}
