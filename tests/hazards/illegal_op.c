/* Ops of one-sided calls in a reduction: an error that the communicator's handler returns. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank = 0, found[2] = {0, 0}, data[4] = {0}, all[4];
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Allreduce(data, all, 4, MPI_INT, MPI_REPLACE, comm), &found[0]);
    MPI_Error_class(MPI_Allreduce(data, all, 4, MPI_INT, MPI_NO_OP, comm), &found[1]);
    if (found[0] != MPI_ERR_OP || found[1] != MPI_ERR_OP)
        printf("rank %d: error classes %d and %d\n", rank, found[0], found[1]);
    else if (rank == 0)
        puts("passed");
    MPI_Comm_free(&comm);
    return MPI_Finalize();
}
