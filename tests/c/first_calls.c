/*
 * What a communicator's first call costs, in time and memory, in a simulation
 * (tests/setup_prices.py):
 *
 *   first_calls COLLECTIVE
 *
 * All ranks of a simulation share a heap. Its growth over the ranks is the mean of a rank, with
 * what SMPI keeps and with what SMPI or the runtime keep once. Prints the slowest rank's
 * microseconds of MPI_Comm_split, of the first and of the second call, and bytes of a rank in the
 * first call.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* smpi.h hides these behind macros, which malloc.h would declare again. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <malloc.h>

static int rank;
static int size;
static double *data;
static int *counts;
static int *displs;

static void allreduce(MPI_Comm comm) {
    MPI_Allreduce(data, data + 1024, 1024, MPI_DOUBLE, MPI_SUM, comm);
}

static void reduce(MPI_Comm comm) {
    MPI_Reduce(data, data + 1024, 1024, MPI_DOUBLE, MPI_SUM, 0, comm);
}

static void alltoallv(MPI_Comm comm) {
    MPI_Alltoallv(data, counts, displs, MPI_DOUBLE, data + size, counts, displs, MPI_DOUBLE, comm);
}

static const struct {
    const char *name;
    void (*run)(MPI_Comm comm);
} calls[] = {{"allreduce", allreduce}, {"reduce", reduce}, {"alltoallv", alltoallv}};

static void split(MPI_Comm comm) {
    MPI_Comm part = MPI_COMM_NULL;
    PMPI_Comm_split(comm, rank % 2, rank, &part);
}

/* Known on rank 0; the C library walks through the heap for it. */
static double allocated(void) {
    struct mallinfo2 info = {0};
    if (rank == 0) {
        info = mallinfo2();
    }
    PMPI_Barrier(MPI_COMM_WORLD);
    return (double)(info.uordblks + info.hblkhd);
}

static void price(void (*run)(MPI_Comm comm), MPI_Comm comm, double *most, double *bytes) {
    PMPI_Barrier(MPI_COMM_WORLD);
    const double before = allocated();
    double seconds = PMPI_Wtime();
    run(comm);
    seconds = PMPI_Wtime() - seconds;
    PMPI_Barrier(MPI_COMM_WORLD);
    *bytes = (allocated() - before) / size;
    PMPI_Allreduce(&seconds, most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    double most[3] = {0};
    double bytes[3] = {0};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    data = calloc(2 * (size_t)(size + 1024), sizeof *data);
    counts = malloc(2 * (size_t)size * sizeof *counts);
    displs = counts + size;
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        displs[i] = i;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (argc == 2 && strcmp(calls[i].name, argv[1]) == 0) {
            price(split, MPI_COMM_WORLD, &most[0], &bytes[0]);
            price(calls[i].run, MPI_COMM_WORLD, &most[1], &bytes[1]);
            price(calls[i].run, MPI_COMM_WORLD, &most[2], &bytes[2]);
        }
    }
    if (rank == 0 && most[1] > 0) {
        printf("%.17g %.17g %.17g %.17g\n", 1e6 * most[0], 1e6 * most[1], 1e6 * most[2], bytes[1]);
    }
    free(data);
    free(counts);
    MPI_Finalize();
    return 0;
}
