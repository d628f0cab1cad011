/* What serves a broadcast and a reduction on the columns of the job: the ranks that are alike on their nodes of two. */
#include <collforge.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char bcast[256] = "";
    char allreduce[256] = "";
    MPI_Comm column;
    int rank = 0, sum = 0, size = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    MPI_Comm_size(column, &size);
    for (int i = 0; i < 3; i++) {
        const int one = 1;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, column);
        MPI_Bcast(&sum, 1, MPI_INT, 0, column);
        if (sum != size)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    collforge_choice(column, "bcast", 4, bcast, sizeof bcast);
    collforge_choice(column, "allreduce", 4, allreduce, sizeof allreduce);
    if (rank == 0)
        printf("%s %s\n", bcast, allreduce);
    MPI_Comm_free(&column);
    MPI_Finalize();
    return 0;
}
