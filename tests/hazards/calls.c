/* Plain program: N calls each of allreduce, bcast, barrier on WORLD, checked. arg1: calls, arg2: count; arg3: also of
 * igatherv and iallgather */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int starts(int rank, int size, int call) {
    int mine[2] = {rank + call, -rank}, bad = 0, *all = malloc(4 * sizeof(int) * (size_t)size), *gathered = all + 2 * size;
    int *counts = malloc(2 * sizeof(int) * (size_t)size), *displs = counts + size;
    MPI_Request requests[2];
    for (int i = 0; i < size; i++) counts[i] = 2, displs[i] = 2 * i;
    MPI_Igatherv(mine, 2, MPI_INT, gathered, counts, displs, MPI_INT, call % size, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallgather(mine, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < size; i++) bad += all[2 * i] != i + call || all[2 * i + 1] != -i;
    for (int i = 0; i < size && rank == call % size; i++) bad += gathered[2 * i] != i + call || gathered[2 * i + 1] != -i;
    free(all), free(counts);
    return bad;
}

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
        if (argc > 3) bad += starts(rank, size, c);
    }
    int total = 0;
    MPI_Reduce(&bad, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) puts(total ? "WRONG" : "passed");
    return MPI_Finalize();
}
