/*
 * Blocks without data: of a type of absolute addresses at MPI_BOTTOM, and of a type of size 0. The word names the
 * collective; the number is the rank whose block is empty.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, EACH = 2, ROUNDS = 3 };

static int in[RANKS * EACH], out[RANKS * EACH], counts[RANKS], places[RANKS];
static int rank, size;

static int value(int of, int i) {
    return of * 100 + i;
}

/* The absolute type of one int at this address. */
static MPI_Datatype absolute(void *at) {
    MPI_Datatype type;
    MPI_Aint address;
    int one = 1;

    MPI_Get_address(at, &address);
    MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static int differ_from_all(void) {
    int wrong = 0;

    for (int of = 0; of < size; of++)
        for (int i = 0; i < counts[of]; i++)
            wrong += out[of * EACH + i] != value(of, i);
    return wrong;
}

static int scatterv(void) {
    MPI_Datatype type = absolute(in);
    int wrong = 0;

    MPI_Scatterv(MPI_BOTTOM, counts, places, type, out, counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < counts[rank]; i++)
        wrong += out[i] != value(0, rank * EACH + i);
    MPI_Type_free(&type);
    return wrong;
}

/* Rank 0 receives nothing, as one element of a type of size 0 from each rank. */
static int alltoallv(void) {
    int received[RANKS], sent[RANKS], wrong = 0;
    MPI_Datatype nothing;

    MPI_Type_vector(0, 1, 2, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    for (int of = 0; of < size; of++) {
        sent[of] = of == 0 ? 0 : EACH;
        received[of] = rank == 0 ? 1 : EACH;
    }
    MPI_Alltoallv(in, sent, places, MPI_INT, out, received, places, rank == 0 ? nothing : MPI_INT, MPI_COMM_WORLD);
    for (int of = 0; of < size && rank > 0; of++)
        for (int i = 0; i < EACH; i++)
            wrong += out[of * EACH + i] != value(of, rank * EACH + i);
    MPI_Type_free(&nothing);
    return wrong;
}

static int collect(int everywhere) {
    MPI_Datatype type = absolute(out);

    if (everywhere)
        MPI_Allgatherv(in, counts[rank], MPI_INT, MPI_BOTTOM, counts, places, type, MPI_COMM_WORLD);
    else
        MPI_Gatherv(in, counts[rank], MPI_INT, MPI_BOTTOM, counts, places, type, 0, MPI_COMM_WORLD);
    MPI_Type_free(&type);
    return everywhere || rank == 0 ? differ_from_all() : 0;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const int empty = argc > 2 ? atoi(argv[2]) : 0;
    int wrong = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int of = 0; of < size; of++) {
        counts[of] = of == empty ? 0 : EACH;
        places[of] = of * EACH;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < size * EACH; i++) {
            in[i] = value(rank, i);
            out[i] = -1;
        }
        wrong += strcmp(name, "scatterv") == 0    ? scatterv()
                 : strcmp(name, "alltoallv") == 0 ? alltoallv()
                                                  : collect(strcmp(name, "allgatherv") == 0);
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
