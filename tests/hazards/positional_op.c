/* An op that means "the whole vector of six ints": sums at five places, a maximum at one. Not element by element, so
 * not legal MPI, but it works with libraries that never split 24 bytes. After trilinos/Trilinos#15235 (Zoltan). */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void op6(void *in, void *inout, int *len, MPI_Datatype *type);

void op6(void *in, void *inout, int *len, MPI_Datatype *type) {
    const int *a = in;
    int *b = inout;
    (void)len, (void)type;
    b[0] += a[0], b[1] += a[1], b[3] += a[3], b[4] += a[4], b[5] += a[5];
    b[2] = a[2] > b[2] ? a[2] : b[2];
}

/* Takes the vector with the larger first element: of a vector with itself it makes the same. */
void larger(void *in, void *inout, int *len, MPI_Datatype *type);

void larger(void *in, void *inout, int *len, MPI_Datatype *type) {
    const int *a = in;
    int *b = inout;
    (void)type;
    for (int i = *len - 1; i >= 0 && a[0] > b[0]; i--)
        b[i] = a[i];
}

/* Two ops that may be split: one stores into its first operand, one changes what lies between the data. */
struct padded {
    char set;
    double sum;
};

void swaps(void *in, void *inout, int *len, MPI_Datatype *type);

void swaps(void *in, void *inout, int *len, MPI_Datatype *type) {
    int *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *len; i++) {
        const int sum = a[i] + b[i];
        a[i] = b[i];
        b[i] = sum;
    }
}

void pads(void *in, void *inout, int *len, MPI_Datatype *type);

void pads(void *in, void *inout, int *len, MPI_Datatype *type) {
    static int calls;
    const struct padded *a = in;
    struct padded *b = inout;
    (void)type;
    for (int i = 0; i < *len; i++) {
        struct padded made;
        memset(&made, ++calls, sizeof made);
        made.set = (char)(a[i].set | b[i].set);
        made.sum = a[i].sum + b[i].sum;
        memcpy(&b[i], &made, sizeof made);
    }
}

/* The number of wrong elements. */
static int reduce_others(int rank, int size) {
    const MPI_Aint at[2] = {offsetof(struct padded, set), offsetof(struct padded, sum)};
    const int lengths[2] = {1, 1};
    const MPI_Datatype types[2] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Datatype fields, type;
    MPI_Op op;
    struct padded in[4], out[4];
    int numbers[4] = {rank, rank, rank, rank}, sums[4], wrong = 0;
    MPI_Op_create(swaps, 1, &op);
    MPI_Allreduce(numbers, sums, 4, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    MPI_Type_create_struct(2, lengths, at, types, &fields);
    MPI_Type_create_resized(fields, 0, sizeof(struct padded), &type);
    MPI_Type_commit(&type);
    memset(in, 0, sizeof in);
    for (int i = 0; i < 4; i++)
        in[i].set = (char)(1 << rank), in[i].sum = rank;
    MPI_Op_create(pads, 1, &op);
    MPI_Allreduce(in, out, 4, type, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Type_free(&fields);
    for (int i = 0; i < 4; i++)
        wrong += sums[i] != size * (size - 1) / 2 || out[i].set != (1 << size) - 1 ||
                 out[i].sum != size * (size - 1) / 2;
    return wrong;
}

int main(int argc, char **argv) {
    int rank, size, wrong = 0, all = 0;
    MPI_Op op;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op_create(op6, 1, &op);
    for (int i = 0; i < 3; i++) {
        int in[6] = {1, rank, rank + 7, 2, 3, 4};
        int out[8] = {-9, -9, -9, -9, -9, -9, -77, -78};
        MPI_Allreduce(in, out, 6, MPI_INT, op, MPI_COMM_WORLD);
        const int want[8] = {size, size * (size - 1) / 2, size + 6, 2 * size, 3 * size, 4 * size, -77, -78};
        wrong += memcmp(out, want, sizeof want) != 0;
    }
    MPI_Op_free(&op);
    MPI_Op_create(larger, 1, &op);
    int own[6] = {size - rank, rank, rank, rank, rank, rank}, best[6];
    MPI_Allreduce(own, best, 6, MPI_INT, op, MPI_COMM_WORLD);
    for (int i = 0; i < 6; i++)
        wrong += best[i] != (i == 0 ? size : 0);
    wrong += reduce_others(rank, size);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all ? "failed" : "passed");
    MPI_Op_free(&op);
    return MPI_Finalize();
}
