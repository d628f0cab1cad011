/* For nonblocking.F90. */
#include <mpi.h>

void allreduce_in_c(int *values, int n);

void allreduce_in_c(int *values, int n) {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, values, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
