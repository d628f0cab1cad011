/* A library that calls MPI's Fortran routines, whosever they are. */
#include <stdio.h>

void mpi_init_(int *ierror);
void mpi_barrier_(const int *comm, int *ierror);
void solve(void);

void solve(void) {
    const int comm = 5;
    int from_init = 0;
    int from_barrier = 0;

    mpi_init_(&from_init);
    mpi_barrier_(&comm, &from_barrier);
    printf("init %d barrier %d\n", from_init, from_barrier);
}
