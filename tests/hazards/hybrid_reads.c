/*
 * What a rank reads in a hybrid piece before its own call: the result of the call before, although the other rank of
 * its node has called already. Words: the second collective, the number of elements, the rank that is late.
 */
#include <collforge_hybrid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 16, WAIT = 300000 /* microseconds */ };

static double first[MOST], second[MOST];

static void keep_left(void *in, void *inout, int *length, MPI_Datatype *type) {
    (void)type;
    memcpy(inout, in, (size_t)*length * sizeof(double));
}

int main(int argc, char **argv) {
    struct collforge_hybrid *hybrid;
    double *piece = NULL;
    const int count = atoi(argv[2]), late = atoi(argv[3]);
    int rank, size, wrong = 0, all;
    MPI_Op left;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op_create(keep_left, 0, &left);
    for (int i = 0; i < count; i++) {
        first[i] = i % 7;
        second[i] = 1000 + rank;
    }
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    collforge_hybrid_alloc(hybrid, sizeof first, &piece);
    collforge_hybrid_allreduce(first, piece, count, MPI_DOUBLE, MPI_SUM, hybrid);
    if (rank == late)
        usleep(WAIT);
    for (int i = 0; i < count && rank == late; i++)
        wrong += piece[i] != size * (i % 7);
    if (strcmp(argv[1], "allreduce") == 0)
        collforge_hybrid_allreduce(second, piece, count, MPI_DOUBLE, MPI_SUM, hybrid);
    else if (strcmp(argv[1], "reduce") == 0)
        collforge_hybrid_reduce(second, piece, count, MPI_DOUBLE, MPI_SUM, 0, hybrid);
    else /* the last rank's node has the result, the others keep what they have */
        collforge_hybrid_reduce(second, piece, count, MPI_DOUBLE, left, size - 1, hybrid);
    for (int i = 0; i < count && strcmp(argv[1], "ordered") == 0; i++)
        wrong += piece[i] != (rank >= size - 2 ? 1000 : size * (i % 7));
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    collforge_hybrid_free(&hybrid);
    MPI_Op_free(&left);
    return MPI_Finalize();
}
