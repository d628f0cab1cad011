/* Large calls, and the memory that the process has after them: native's is given back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { BLOCK = 8 << 20, MORE_KIB = 96 << 10 };

int main(int argc, char **argv) {
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    const long before = resident_kib();
    char *a = calloc((size_t)size, BLOCK);
    char *b = calloc((size_t)size, BLOCK);
    memset(a, rank, (size_t)size * BLOCK);
    for (int block = BLOCK; block > 0; block /= 8)
        MPI_Alltoall(a, block, MPI_BYTE, b, block, MPI_BYTE, MPI_COMM_WORLD);
    int bad = 0;
    for (int i = 0; i < size; i++)
        bad += b[(size_t)i * BLOCK + BLOCK - 1] != i;
    free(a);
    free(b);
    MPI_Barrier(MPI_COMM_WORLD);
    const long more = resident_kib() - before;
    bad += more > MORE_KIB;
    if (more > MORE_KIB)
        printf("rank %d: %ld KiB more than before\n", rank, more);
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(bad ? "FAILED" : "passed");
    return MPI_Finalize();
}
