/* Plain program: N calls each of allreduce, bcast, barrier on WORLD, checked. arg1: calls, arg2: count */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size, bad = 0, calls = argc > 1 ? atoi(argv[1]) : 5, count = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *in = malloc(sizeof(int) * (size_t)count), *out = malloc(sizeof(int) * (size_t)count);
    for (int c = 0; c < calls; c++) {
        for (int i = 0; i < count; i++) in[i] = rank + i + c, out[i] = -1;
        MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) bad += out[i] != size * (i + c) + size * (size - 1) / 2;
        if (rank == c % size) for (int i = 0; i < count; i++) in[i] = i * 3 + c;
        MPI_Bcast(in, count, MPI_INT, c % size, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) bad += in[i] != i * 3 + c;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    int total = 0;
    MPI_Reduce(&bad, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) puts(total ? "WRONG" : "passed");
    return MPI_Finalize();
}
