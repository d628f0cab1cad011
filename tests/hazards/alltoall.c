/* Two calls of MPI_Alltoall, with 4 KiB for each rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 4096 };

int main(int argc, char **argv) {
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *a = calloc((size_t)size, BLOCK);
    void *b = calloc((size_t)size, BLOCK);
    for (int n = 0; n < 2; n++)
        MPI_Alltoall(a, BLOCK, MPI_BYTE, b, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    free(a);
    free(b);
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
