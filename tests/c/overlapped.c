/*
 * Nonblocking collectives whose overlap the profile tells: while the allreduces are under way the
 * ranks compute, and in the broadcasts they wait for a late root.
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 10, COUNT = 64 };

static double seconds(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Processor time, as ranks may share cores. */
static void compute(double length) {
    const double end = seconds() + length;
    while (seconds() < end) {
    }
}

int main(int argc, char **argv) {
    double in[COUNT] = {0};
    double out[COUNT];
    MPI_Request request = MPI_REQUEST_NULL;
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Iallreduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        compute(0.01);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0) {
            compute(0.01);
        }
        MPI_Ibcast(out, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
#if MPI_VERSION >= 4
    const MPI_Count counts[] = {16, 16, 16, 16};
    MPI_Iallgather_c(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ireduce_scatter_c(in, out, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
    if (rank == 0) {
        puts("passed");
    }
    MPI_Finalize();
    return 0;
}
