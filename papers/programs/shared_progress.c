/*
 * Two correct programs that wait for ever if a call makes progress only on the interface (VCI) of
 * its own communicator or window: collforge probe progress, after Zambre, Chandramowlishwaran and
 * Balaji (2020), Fig. 9.
 *
 *   shared_progress ssend|get      (two ranks; rank 1 has two threads)
 *
 * ssend: rank 0 sends to thread 0 of rank 1 and then to thread 1, each with a communicator of its
 * own, but thread 0 waits only after thread 1 has. get: both ranks fetch over two windows; rank 0
 * flushes the first and then the second, but thread 0 of rank 1 flushes the first only after thread
 * 1 has flushed the second. Prints "passed", or fails if the data are wrong.
 */
#include <mpi.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 18 };

static double data[2][COUNT];
static MPI_Comm comms[2];
static MPI_Win windows[2];

static void run_rank_0(bool gets, const double *source) {
    for (int i = 0; i < 2; i++) {
        if (gets) {
            MPI_Get(data[i], COUNT, MPI_DOUBLE, 1, 0, COUNT, MPI_DOUBLE, windows[i]);
        } else {
            MPI_Ssend(source, COUNT, MPI_DOUBLE, 1, 0, comms[i]);
        }
    }
    for (int i = 0; i < 2 && gets; i++) {
        MPI_Win_flush(1, windows[i]);
    }
}

static void run_rank_1(bool gets, int thread) {
    MPI_Request request = MPI_REQUEST_NULL;

    if (gets) {
        MPI_Get(data[thread], COUNT, MPI_DOUBLE, 0, 0, COUNT, MPI_DOUBLE, windows[thread]);
    } else {
        MPI_Irecv(data[thread], COUNT, MPI_DOUBLE, 0, 0, comms[thread], &request);
    }
    for (int turn = 1; turn >= 0; turn--) {
#pragma omp barrier
        if (thread == turn && gets) {
            MPI_Win_flush(0, windows[thread]);
        } else if (thread == turn) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
}

/* Returns whether the data are right. */
static bool run(bool gets, int rank, const double *source) {
    bool right = true;

    for (int i = 0; i < 2; i++) {
        double *memory = NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        if (gets) {
            MPI_Win_allocate(sizeof data[0], sizeof(double), MPI_INFO_NULL, comms[i], &memory,
                             &windows[i]);
            memcpy(memory, source, sizeof data[0]);
            MPI_Win_lock_all(0, windows[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        run_rank_0(gets, source);
    } else {
#pragma omp parallel num_threads(2)
        run_rank_1(gets, omp_get_thread_num());
    }
    for (int i = 0; i < 2 && (gets || rank == 1); i++) {
        right = right && memcmp(data[i], source, sizeof data[0]) == 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        if (gets) {
            MPI_Win_unlock_all(windows[i]);
            MPI_Win_free(&windows[i]);
        }
        MPI_Comm_free(&comms[i]);
    }
    return right;
}

int main(int argc, char **argv) {
    static double source[COUNT];
    int rank = 0;
    int size = 0;
    int provided = MPI_THREAD_SINGLE;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || size != 2 || provided < MPI_THREAD_MULTIPLE) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < COUNT; i++) {
        source[i] = i + 1;
    }
    if (!run(strcmp(argv[1], "get") == 0, rank, source)) {
        (void)fprintf(stderr, "shared_progress: wrong data on rank %d\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (rank == 0) {
        puts("passed");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
