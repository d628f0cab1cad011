/* A plugin that is linked with an MPI library. */
#include <mpi.h>
#include <stdio.h>
int run(void) {
    int rank, size, one = 1, sum = 0, wrong = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 4; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += sum != size;
    }
    if (rank == 0)
        puts(wrong ? "failed" : "passed");
    return MPI_Finalize();
}
