/*
 * An op that stores into both of its operands: it keeps the larger number and leaves the smaller one behind. The
 * words name the collectives to call. What a rank sends stays as it was.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 5000, ROUNDS = 400, FEW_ROUNDS = 40, RANKS = 8 };

static long a[RANKS * MOST], b[RANKS * MOST];
static int rank, size;

static void larger(void *in, void *inout, int *length, MPI_Datatype *type) {
    long *first = in, *second = inout;

    (void)type;
    for (int i = 0; i < *length; i++) {
        const long left = first[i];
        if (left > second[i]) {
            first[i] = second[i];
            second[i] = left;
        }
    }
}

static long value(int of, int round, int i) {
    return (of * 7 + round + i) % 11;
}

/* Of the numbers of `ranks` ranks from place `first` of their vectors on. */
static int differ(int count, int round, int ranks, int first) {
    int wrong = 0;

    for (int i = 0; i < count; i++) {
        long wanted = 0;
        for (int of = 0; of < ranks; of++)
            wanted = value(of, round, first + i) > wanted ? value(of, round, first + i) : wanted;
        wrong += b[i] != wanted;
    }
    return wrong;
}

static int call(const char *name, int count, int round, MPI_Op op) {
    const int root = round % size;

    if (strcmp(name, "allreduce") == 0) {
        MPI_Allreduce(a, b, count, MPI_LONG, op, MPI_COMM_WORLD);
        return differ(count, round, size, 0);
    }
    if (strcmp(name, "reduce") == 0) {
        MPI_Reduce(a, b, count, MPI_LONG, op, root, MPI_COMM_WORLD);
        return rank == root ? differ(count, round, size, 0) : 0;
    }
    if (strcmp(name, "reduce_scatter_block") == 0) {
        MPI_Reduce_scatter_block(a, b, count, MPI_LONG, op, MPI_COMM_WORLD);
        return differ(count, round, size, rank * count);
    }
    if (strcmp(name, "scan") == 0) {
        MPI_Scan(a, b, count, MPI_LONG, op, MPI_COMM_WORLD);
        return differ(count, round, rank + 1, 0);
    }
    if (strcmp(name, "exscan") == 0) {
        MPI_Exscan(a, b, count, MPI_LONG, op, MPI_COMM_WORLD);
        return rank > 0 ? differ(count, round, rank, 0) : 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    int wrong = 0, total = 0;
    MPI_Op ops[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op_create(larger, 0, &ops[0]);
    MPI_Op_create(larger, 1, &ops[1]);
    for (int n = 1; n < argc; n++) {
        (void)call(argv[n], 1, 0, MPI_MAX); /* the first call of a communicator may be native */
        for (int round = 0; round < ROUNDS; round++) {
            const int count = round < ROUNDS - FEW_ROUNDS ? 8 : MOST;
            for (int i = 0; i < size * count; i++)
                a[i] = value(rank, round, i);
            const int bad = call(argv[n], count, round, ops[round % 2]);
            if (bad > 0 && wrong == 0)
                fprintf(stderr, "%s, round %d, rank %d: %d wrong\n", argv[n], round, rank, bad);
            wrong += bad;
            for (int i = 0; i < size * count; i++)
                wrong += a[i] != value(rank, round, i);
        }
    }
    MPI_Op_free(&ops[0]);
    MPI_Op_free(&ops[1]);
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(total == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
