/* Ranks ask for different levels of thread support, which MPI allows: MPI_THREAD_MULTIPLE on rank 0 alone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "rank.h"

int main(int argc, char **argv) {
    const int level = rank_by_launcher() == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int rank, size, provided, one = 1, sum = 0, wrong = 0, all;

    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3; i++) {
        int word = rank == i % size ? i : -1;
        MPI_Bcast(&word, 1, MPI_INT, i % size, MPI_COMM_WORLD);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += word != i || sum != size;
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
