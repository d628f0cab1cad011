/*
 * MPI_Allgather in place: ranks of odd nodes describe the same signature by a vector with holes; then into pairs, whose
 * second number these ranks receive first. The number: ranks of a node.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 64, STRIDE = 2 };

/* The type has no holes, and is as large as its extent. */
static int pairs(int rank, int size, int is_odd) {
    const MPI_Aint places[] = {sizeof(int), 0};
    const int own[] = {rank, -rank - 1};
    int *data = calloc(2 * (size_t)size, sizeof *data);
    int wrong = 0;
    MPI_Datatype swapped;

    MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &swapped);
    MPI_Type_commit(&swapped);
    if (is_odd)
        MPI_Allgather(own, 2, MPI_INT, data, 1, swapped, MPI_COMM_WORLD);
    else
        MPI_Allgather(own, 2, MPI_INT, data, 2, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        wrong += data[2 * i + is_odd] != i || data[2 * i + 1 - is_odd] != -i - 1;
    MPI_Type_free(&swapped);
    free(data);
    return wrong;
}

int main(int argc, char **argv) {
    int rank, size, wrong = 0, all;
    MPI_Datatype type;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int stride = rank / atoi(argv[1]) % 2 == 0 ? 1 : STRIDE;
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * stride, &type);
    MPI_Type_commit(&type);
    int *data = calloc((size_t)(size * COUNT * STRIDE), sizeof *data);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < size * COUNT * stride; i++)
            data[i] = -1;
        for (int i = 0; i < COUNT; i++)
            data[(rank * COUNT + i) * stride] = round + rank * COUNT + i;
        if (stride == 1)
            MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, COUNT, MPI_INT, MPI_COMM_WORLD);
        else
            MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, COUNT, type, MPI_COMM_WORLD);
        for (int i = 0; i < size * COUNT; i++)
            wrong += data[i * stride] != round + i;
    }
    wrong += pairs(rank, size, stride != 1);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    free(data);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
