/* An op that stores into both of its operands: it keeps the larger number and leaves the smaller one behind. */
#include <mpi.h>
#include <stdio.h>

enum { MOST = 5000, ROUNDS = 2000, FEW_ROUNDS = 40 };

static void larger(void *in, void *inout, int *length, MPI_Datatype *type) {
    long *a = in, *b = inout;

    (void)type;
    for (int i = 0; i < *length; i++) {
        const long left = a[i];
        if (left > b[i]) {
            a[i] = b[i];
            b[i] = left;
        }
    }
}

static long value(int rank, int round, int i) {
    return (rank * 7 + round + i) % 11;
}

static int differ(const long *got, int count, int round, int ranks) {
    int wrong = 0;

    for (int i = 0; i < count; i++) {
        long wanted = 0;
        for (int rank = 0; rank < ranks; rank++)
            wanted = value(rank, round, i) > wanted ? value(rank, round, i) : wanted;
        wrong += got[i] != wanted;
    }
    return wrong;
}

int main(int argc, char **argv) {
    static long a[MOST], b[MOST];
    int rank, size, wrong = 0, total = 0;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op_create(larger, 1, &op);
    for (int round = 0; round < ROUNDS; round++) {
        const int count = round < ROUNDS - FEW_ROUNDS ? 8 : MOST;
        for (int i = 0; i < count; i++)
            a[i] = value(rank, round, i);
        MPI_Allreduce(a, b, count, MPI_LONG, op, MPI_COMM_WORLD);
        wrong += differ(b, count, round, size);
        for (int i = 0; i < count; i++)
            a[i] = value(rank, round, i);
        MPI_Scan(a, b, count, MPI_LONG, op, MPI_COMM_WORLD);
        wrong += differ(b, count, round, rank + 1);
    }
    MPI_Op_free(&op);
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(total == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
