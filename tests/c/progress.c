/*
 * Zambre et al. (2020), Fig. 9: a correct program that deadlocks where a library lets each thread
 * work on its own interface alone. Rank 0 sends on one communicator, then on another; of rank 1's two threads the one
 * that waits first waits for the second message. What our own threads do with communicators rests on such programs
 * ending: with MPICH under as many interfaces as `collforge env` sets. Prints "passed".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20, COUNT = 200000 };

static int first[COUNT];
static int second[COUNT];

int main(int argc, char **argv) {
    MPI_Comm comm[2];
    int provided = 0;
    int rank = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
    for (int round = 0; round < ROUNDS && provided == MPI_THREAD_MULTIPLE; round++) {
        if (rank == 0) {
            MPI_Ssend(first, COUNT, MPI_INT, 1, 0, comm[0]);
            MPI_Ssend(second, COUNT, MPI_INT, 1, 0, comm[1]);
        } else if (rank == 1) {
            MPI_Request request[2];
#pragma omp parallel sections num_threads(2)
            {
#pragma omp section
                MPI_Irecv(first, COUNT, MPI_INT, 0, 0, comm[0], &request[0]);
#pragma omp section
                MPI_Irecv(second, COUNT, MPI_INT, 0, 0, comm[1], &request[1]);
            }
            MPI_Wait(&request[1], MPI_STATUS_IGNORE);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        }
    }
    MPI_Comm_free(&comm[0]);
    MPI_Comm_free(&comm[1]);
    if (rank == 0) {
        puts(provided == MPI_THREAD_MULTIPLE ? "passed" : "no MPI_THREAD_MULTIPLE");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
