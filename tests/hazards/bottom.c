/* Reductions into MPI_BOTTOM: of one element of absolute addresses, by an op of the program's own. */
#include <mpi.h>
#include <stdio.h>

enum { WORDS = 100 };

static int first[WORDS], second[WORDS];
static MPI_Aint at_first, at_second;

static void add(void *in, void *inout, int *length, MPI_Datatype *type) {
    const MPI_Aint places[] = {at_first, at_second};

    (void)length;
    (void)type;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < WORDS; i++)
            ((int *)((char *)inout + places[p]))[i] += ((int *)((char *)in + places[p]))[i];
}

static void fill(int rank) {
    for (int i = 0; i < WORDS; i++)
        first[i] = second[WORDS - 1 - i] = rank * WORDS + i;
}

static void expect(const char *what, int ranks) {
    for (int i = 0; i < WORDS; i++) {
        const int wanted = ranks * (ranks - 1) / 2 * WORDS + ranks * i;
        if (first[i] != wanted || second[WORDS - 1 - i] != wanted) {
            fprintf(stderr, "%s: %d and %d, not %d\n", what, first[i], second[WORDS - 1 - i], wanted);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv) {
    const MPI_Datatype types[] = {MPI_INT, MPI_INT};
    const int lengths[] = {WORDS, WORDS};
    MPI_Datatype type;
    MPI_Op op;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_address(first, &at_first);
    MPI_Get_address(second, &at_second);
    const MPI_Aint places[] = {at_first, at_second};
    MPI_Type_create_struct(2, lengths, places, types, &type);
    MPI_Type_commit(&type);
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Op_create(add, commutes, &op);
        fill(rank);
        MPI_Scan(MPI_IN_PLACE, MPI_BOTTOM, 1, type, op, MPI_COMM_WORLD);
        expect("scan", rank + 1);
        fill(rank);
        MPI_Allreduce(MPI_IN_PLACE, MPI_BOTTOM, 1, type, op, MPI_COMM_WORLD);
        expect("allreduce", size);
        MPI_Op_free(&op);
    }
    MPI_Type_free(&type);
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
