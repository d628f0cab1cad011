/*
 * Reductions of the columns of a matrix of two rows: elements interleave, so that one more than there are columns would
 * reach into the second row of the first.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

static int columns; /* ints from the first row to the second */

static void add(void *in, void *inout, int *length, MPI_Datatype *type) {
    const int *a = in;
    int *b = inout;

    (void)type;
    for (int i = 0; i < *length; i++) {
        b[i] += a[i];
        b[columns + i] += a[columns + i];
    }
}

static int value(int rank, int i) {
    return (rank + 1) * 1000 + i;
}

static void expect(const char *what, const int *got, int ranks) {
    for (int i = 0; i < 2 * columns; i++) {
        int wanted = 0;
        for (int rank = 0; rank < ranks; rank++)
            wanted += value(rank, i);
        if (got[i] != wanted) {
            fprintf(stderr, "%s of %d columns: %d at %d, not %d\n", what, columns, got[i], i, wanted);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

static void check(MPI_Op op) {
    MPI_Datatype plain, column;
    int rank, size, a[2 * MOST], b[2 * MOST];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_vector(2, 1, columns, MPI_INT, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(int), &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < 2 * columns; i++)
        a[i] = value(rank, i);
    MPI_Allreduce(a, b, columns, column, op, MPI_COMM_WORLD);
    expect("allreduce", b, size);
    MPI_Scan(a, b, columns, column, op, MPI_COMM_WORLD);
    expect("scan", b, rank + 1);
    MPI_Exscan(a, b, columns, column, op, MPI_COMM_WORLD);
    if (rank > 0)
        expect("exscan", b, rank);
    for (int root = 0; root < size; root++) {
        MPI_Reduce(a, b, columns, column, op, root, MPI_COMM_WORLD);
        if (rank == root)
            expect("reduce", b, size);
    }
    MPI_Type_free(&column);
    MPI_Type_free(&plain);
}

int main(int argc, char **argv) {
    static const int numbers[] = {2, 4, 5, 7, MOST};
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Op op;
        MPI_Op_create(add, commutes, &op);
        for (unsigned n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
            columns = numbers[n];
            check(op);
        }
        MPI_Op_free(&op);
    }
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
