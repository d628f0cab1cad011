/*
 * Two correct programs that wait for ever if a call makes progress only on the interface (VCI) of
 * its own communicator or window: collforge probe progress, after Zambre, Chandramowlishwaran and
 * Balaji (2020), Fig. 9.
 *
 *   shared_progress ssend|put      (two ranks)
 *
 * ssend: rank 1 waits for a message on one communicator, while rank 0 sends on another, for which
 * rank 1 has posted the receive. put: rank 1 waits for a message on a communicator, while rank 0
 * completes a put into rank 1's memory. Prints "passed".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 18 };

static double data[2][COUNT];

static void send_on_two(int rank) {
    MPI_Comm comms[2];
    MPI_Request requests[2];

    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < 2 && rank == 1; i++) {
        MPI_Irecv(data[i], COUNT, MPI_DOUBLE, 0, 0, comms[i], &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2 && rank == 0; i++) {
        MPI_Ssend(data[i], COUNT, MPI_DOUBLE, 1, 0, comms[i]);
    }
    if (rank == 1) {
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Comm_free(&comms[i]);
    }
}

static void put_and_send(int rank) {
    MPI_Comm comm;
    MPI_Win window;
    double *memory = NULL;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_allocate(sizeof data[0], sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &window);
    MPI_Win_lock_all(0, window);
    if (rank == 0) {
        MPI_Put(data[0], COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, window);
        MPI_Win_flush(1, window);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 0, comm);
    } else if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    int rank = 0;
    int provided = MPI_THREAD_SINGLE;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (strcmp(argv[1], "put") == 0) {
        put_and_send(rank);
    } else {
        send_on_two(rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("passed");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
