/*
 * Illegal calls that end at once, on a communicator on which nobody has called yet: an op of one-sided calls on all
 * ranks, then a negative count on rank 0, whose call the others never join.
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank = 0, found[2] = {0, 0}, data[4] = {0}, all[64];
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Allreduce(data, all, 4, MPI_INT, MPI_REPLACE, comm), &found[0]);
    if (rank == 0)
        MPI_Error_class(MPI_Gather(data, 4, MPI_INT, all, -1, MPI_INT, 0, comm), &found[1]);
    if (found[0] != MPI_ERR_OP || (rank == 0 && found[1] != MPI_ERR_COUNT))
        printf("rank %d: error classes %d and %d\n", rank, found[0], found[1]);
    else if (rank == 0)
        puts("passed");
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
