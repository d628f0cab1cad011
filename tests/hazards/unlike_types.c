/* MPI_Allgather in place: ranks of odd nodes describe the same signature by a vector with holes. The number: ranks of a node. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 64, STRIDE = 2 };

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
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    free(data);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
