/* Some collectives of two kinds, the first of them on a part of the ranks. */
#include <mpi.h>
#include <stdio.h>

enum { CALLS = 5, WORDS = 64 };

int main(int argc, char **argv) {
    int rank, size, bad = 0;
    MPI_Comm half;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int i = 0; i < CALLS; i++) {
        int a[WORDS] = {0}, b[WORDS] = {0};
        a[1] = rank == 0 || rank == 1 ? i + 1 : 0;
        MPI_Bcast(a, WORDS, MPI_INT, 0, half);
        bad += a[1] != i + 1;
        a[2] = rank == i % size ? i : 0;
        MPI_Bcast(a, WORDS, MPI_INT, i % size, MPI_COMM_WORLD);
        bad += a[2] != i;
        MPI_Allreduce(a, b, WORDS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        bad += b[2] != size * i;
    }
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &bad, &bad, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(bad ? "FAILED" : "passed");
    MPI_Comm_free(&half);
    return MPI_Finalize();
}
