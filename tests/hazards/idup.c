/*
 * Collectives while MPI_Comm_idup is under way: they may make no communicators, with which its own messages would meet.
 *   idup all    on the communicator that all ranks duplicate, in some rounds
 *   idup half   on all ranks, of which half duplicate a communicator of their own; then on half of
 *               the ranks, which let the other half begin the duplication only then
 *   idup late   on all ranks: the first collective of the program
 */
#include <stdio.h>
#include <string.h>

enum { CALLS = 2, ROUNDS = 20 };

#include "sum.h"

int main(int argc, char **argv) {
    int rank, size, total = 0, word = 0;
    MPI_Comm half, made;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
    const int lower = rank < size / 2;
    if (argc > 1 && strcmp(argv[1], "half") == 0) {
        MPI_Comm own = MPI_COMM_NULL;
        request = MPI_REQUEST_NULL;
        if (lower)
            MPI_Comm_idup(half, &own, &request);
        sum(MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (lower)
            MPI_Comm_free(&own);
        if (!lower)
            MPI_Recv(&word, 1, MPI_INT, rank - size / 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        if (lower) {
            sum(half);
            MPI_Send(&word, 1, MPI_INT, rank + size / 2, 0, MPI_COMM_WORLD);
        }
    } else if (argc > 1 && strcmp(argv[1], "late") == 0) {
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        for (int n = 0; n < ROUNDS; n++) {
            word = rank == 0 ? n : -1;
            MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
            wrong += word != n;
        }
    } else {
        for (int n = 0; n < ROUNDS; n++) {
            MPI_Comm one;
            MPI_Comm_dup(MPI_COMM_WORLD, &one);
            MPI_Comm_idup(one, &made, &request);
            sum(one);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            sum(made);
            MPI_Comm_free(&one);
            MPI_Comm_free(&made);
        }
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sum(made);
    MPI_Comm_free(&half);
    MPI_Comm_free(&made);
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(total == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
