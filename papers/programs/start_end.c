/*
 * The time of MPI_Init and of MPI_Finalize: collforge probe vcis, after Zambre, Chandramowlishwaran
 * and Balaji (2020), section 4.2. Prints the seconds of rank 0 as JSON.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <time.h>

/* MPI_Wtime must not be called before MPI_Init or after MPI_Finalize. */
static double now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    int rank = 0;
    int provided = MPI_THREAD_SINGLE;
    const double begin = now();
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
        return 1;
    }
    const double started = now();
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    const double ending = now();
    if (MPI_Finalize() != MPI_SUCCESS) {
        return 1;
    }
    if (rank == 0) {
        printf("{\"init\": %.9f, \"finalize\": %.9f}\n", started - begin, now() - ending);
    }
    return 0;
}
