/*
 * Irregular collectives of small and large blocks in random order: MPI_Gatherv, MPI_Scatterv and
 * MPI_Alltoallv, whose sizes no rank knows. Each result is checked.
 *
 *   irregular SEED CALLS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096, RANKS = 16 };

static int wrong = 0;

static unsigned draw(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Elements of the block from one rank to another; large: up to MOST. */
static int size_of(unsigned key, int large, int from, int to) {
    unsigned state = key + 977u * (unsigned)from + 7919u * (unsigned)to;
    (void)draw(&state);
    return (int)(draw(&state) % (large ? MOST : 4));
}

static int value(int call, int from, int to, int at) {
    return call * 31 + from * 1009 + to * 17 + at;
}

static int lay(int *counts, int *displs, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        displs[i] = sum;
        sum += counts[i];
    }
    return sum;
}

static void fill(int *data, int call, int from, int to, int count) {
    for (int i = 0; i < count; i++)
        data[i] = value(call, from, to, i);
}

static void check(const int *data, int call, int from, int to, int count) {
    for (int i = 0; i < count; i++)
        wrong += data[i] != value(call, from, to, i);
}

int main(int argc, char **argv) {
    int rank, size, all;
    int sends[RANKS], receives[RANKS], from[RANKS], to[RANKS];
    static int out[RANKS * MOST], in[RANKS * MOST];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned state = (unsigned)atoi(argv[1]);
    const int calls = argc > 2 ? atoi(argv[2]) : 0;
    for (int call = 0; call < calls; call++) {
        const unsigned key = draw(&state);
        const int what = (int)(draw(&state) % 3);
        const int root = (int)(draw(&state) % (unsigned)size);
        /* Runs of alike sizes, so that exchanges are left out. */
        const int large = call / 40 % 2 == 1 || draw(&state) % 16 == 0;
        for (int other = 0; other < size; other++) {
            sends[other] = size_of(key, large, rank, other);
            receives[other] = size_of(key, large, other, rank);
        }
        (void)lay(sends, from, size);
        (void)lay(receives, to, size);
        for (int other = 0; other < size; other++) {
            fill(out + from[other], call, rank, other, sends[other]);
            fill(in + to[other], 0, 0, 0, receives[other]);
        }
        if (what == 0) {
            MPI_Alltoallv(out, sends, from, MPI_INT, in, receives, to, MPI_INT, MPI_COMM_WORLD);
            for (int other = 0; other < size; other++)
                check(in + to[other], call, other, rank, receives[other]);
        } else if (what == 1) {
            MPI_Gatherv(out + from[root], sends[root], MPI_INT, in, receives, to, MPI_INT, root,
                        MPI_COMM_WORLD);
            for (int other = 0; other < size && rank == root; other++)
                check(in + to[other], call, other, rank, receives[other]);
        } else {
            MPI_Scatterv(out, sends, from, MPI_INT, in, receives[root], MPI_INT, root,
                         MPI_COMM_WORLD);
            check(in, call, root, rank, receives[root]);
        }
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    MPI_Finalize();
    return 0;
}
