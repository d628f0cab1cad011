/* mpicc.openmpi -O2 -o build/collective_times examples/collective_times.c && mpirun.openmpi --oversubscribe -n 4 build/collective_times 65536
 * Times a few collectives as a user's own benchmark would: it knows nothing of Collforge.
 *
 *   collforge cluster run --mpi openmpi -- build/collective_times 1048576
 *   collforge env --mpi openmpi > tuned.sh
 *   (. ./tuned.sh && collforge cluster run --mpi openmpi -- build/collective_times 1048576)
 *
 * Prints a line for each collective: its name and the median over a few calls of the slowest rank's milliseconds.
 * Every result is checked; a wrong one ends the program with exit code 1.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 21, ROOT = 0 };

struct buffers {
    int count; /* of one block */
    int size;
    int rank;
    double *send;    /* [size * count] */
    double *receive; /* [size * count] */
};

enum { BCAST, GATHER, ALLGATHER, REDUCE, ALLREDUCE, REDUCE_SCATTER_BLOCK, SCAN };

static void call(int collective, const struct buffers *b) {
    const MPI_Comm comm = MPI_COMM_WORLD;

    switch (collective) {
    case BCAST: MPI_Bcast(b->receive, b->count, MPI_DOUBLE, ROOT, comm); break;
    case GATHER: MPI_Gather(b->send, b->count, MPI_DOUBLE, b->receive, b->count, MPI_DOUBLE, ROOT, comm); break;
    case ALLGATHER: MPI_Allgather(b->send, b->count, MPI_DOUBLE, b->receive, b->count, MPI_DOUBLE, comm); break;
    case REDUCE: MPI_Reduce(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, ROOT, comm); break;
    case ALLREDUCE: MPI_Allreduce(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, comm); break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, comm);
        break;
    case SCAN: MPI_Scan(b->send, b->receive, b->count, MPI_DOUBLE, MPI_SUM, comm); break;
    }
}

/* What the first element of the result has to be on this rank; rank r sends r + 1 everywhere. */
static const struct {
    const char *name;
    enum { ONE, SUM, PREFIX, ONE_AT_ROOT, SUM_AT_ROOT } result;
} collectives[] = {
    [BCAST] = {"bcast", ONE},
    [GATHER] = {"gather", ONE_AT_ROOT},
    [ALLGATHER] = {"allgather", ONE},
    [REDUCE] = {"reduce", SUM_AT_ROOT},
    [ALLREDUCE] = {"allreduce", SUM},
    [REDUCE_SCATTER_BLOCK] = {"reduce_scatter_block", SUM},
    [SCAN] = {"scan", PREFIX},
};

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static int is_right(const struct buffers *b, int result) {
    const double total = b->size * (b->size + 1) / 2.0;
    const double prefix = (b->rank + 1) * (b->rank + 2) / 2.0;
    const double expected = result == ONE || result == ONE_AT_ROOT ? 1.0 : result == PREFIX ? prefix : total;

    if ((result == ONE_AT_ROOT || result == SUM_AT_ROOT) && b->rank != ROOT) {
        return 1;
    }
    return b->receive[0] == expected && b->receive[b->count - 1] == expected;
}

int main(int argc, char **argv) {
    struct buffers b = {0};
    int wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &b.size);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    b.count = argc > 1 ? atoi(argv[1]) / (int)sizeof(double) : 128;
    b.send = malloc((size_t)b.size * (size_t)b.count * sizeof(double));
    b.receive = malloc((size_t)b.size * (size_t)b.count * sizeof(double));
    if (b.count < 1 || b.send == NULL || b.receive == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < b.size * b.count; i++) {
        b.send[i] = b.rank + 1;
        b.receive[i] = b.rank + 1;
    }
    for (int c = BCAST; c <= SCAN; c++) {
        double times[CALLS];
        for (int i = -1; i < CALLS; i++) { /* the first one warms up */
            MPI_Barrier(MPI_COMM_WORLD);
            const double start = MPI_Wtime();
            call(c, &b);
            const double mine = MPI_Wtime() - start;
            double slowest = 0.0;
            MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, ROOT, MPI_COMM_WORLD);
            times[i < 0 ? 0 : i] = slowest;
            wrong += !is_right(&b, collectives[c].result);
        }
        if (b.rank == ROOT) {
            qsort(times, CALLS, sizeof(double), ascending);
            printf("%-22s %10.4g ms\n", collectives[c].name, 1e3 * times[CALLS / 2]);
        }
    }
    free(b.send);
    free(b.receive);
    MPI_Finalize();
    return wrong != 0;
}
