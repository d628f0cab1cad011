/* A large hybrid allreduce, and the memory that the process has after it: that of temporaries is given back. */
#include <collforge_hybrid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { COUNT = 4 << 20, MORE_KIB = 4 << 10 };

int main(int argc, char **argv) {
    struct collforge_hybrid *hybrid;
    double *own = malloc(COUNT * sizeof *own);
    double *piece;
    int rank, size, bad = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    collforge_hybrid_alloc(hybrid, COUNT * sizeof *piece, &piece);
    for (int i = 0; i < COUNT; i++)
        own[i] = piece[i] = 1;
    collforge_hybrid_allreduce(own, piece, 1, MPI_DOUBLE, MPI_SUM, hybrid);
    const long before = resident_kib();
    collforge_hybrid_allreduce(own, piece, COUNT, MPI_DOUBLE, MPI_SUM, hybrid);
    const long more = resident_kib() - before;
    if (more > MORE_KIB)
        printf("rank %d: %ld KiB more than before\n", rank, more);
    for (int i = 0; i < COUNT; i++)
        bad += piece[i] != size;
    bad += more > MORE_KIB;
    MPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    collforge_hybrid_free(&hybrid);
    free(own);
    return MPI_Finalize();
}
