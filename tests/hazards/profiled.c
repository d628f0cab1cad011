/* Calls on a duplicate of MPI_COMM_WORLD that is made before any collective, and on its halves. Rank 0 is late in them. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Comm duplicate, half;
    int rank, one = 1, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    MPI_Comm_rank(duplicate, &rank);
    for (int i = 0; i < 3; i++) {
        if (rank == 0)
            usleep(20000);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, duplicate);
    }
    MPI_Comm_split(duplicate, rank % 2, rank, &half);
    MPI_Bcast(&one, 1, MPI_INT, 0, half);
    MPI_Comm_free(&half);
    MPI_Comm_free(&duplicate);
    puts("passed");
    MPI_Finalize();
    return 0;
}
