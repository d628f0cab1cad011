/*
 * Sums of doubles whose bits depend on the order: of vectors (or blocks) of several lengths, short
 * and long ones in turn, on MPI_COMM_WORLD, on one rank of each pair, and on the pairs. Prints for
 * each communicator and collective how many elements had other bits than in the longest vector.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20000, MOST_RANKS = 16 };

/* MPI_SUM, or a sum of which the MPI library does not know that it commutes. */
static MPI_Op sum = MPI_SUM;

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++)
        ((double *)inout)[i] = ((double *)in)[i] + ((double *)inout)[i];
}

static const int lengths[] = {MOST, 1, 4096, 2, 7, 20, 100, 1023, MOST, 3, 4096, 1, MOST};

struct place {
    MPI_Comm comm;
    int rank, size;
    double *send, *recv, *first; /* first: the result of the longest */
};

/* Of many magnitudes and both signs. */
static double value(int rank, int block, int i) {
    uint64_t x = ((uint64_t)rank * 31 + (uint64_t)block) * 1000003 + (uint64_t)i + 12345;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return ldexp((double)(int64_t)x / 9.3e18, (int)(x % 40) - 20);
}

/* Fills `blocks` blocks; block b has count + longer * b elements. */
static void fill(const struct place *at, int blocks, int count, int longer) {
    double *to = at->send;
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < count + longer * b; i++)
            *to++ = value(at->rank, b, i);
}

static int do_allreduce(const struct place *at, int count) {
    fill(at, 1, count, 0);
    MPI_Allreduce(at->send, at->recv, count, MPI_DOUBLE, sum, at->comm);
    return count;
}

static int do_reduce(const struct place *at, int count) {
    fill(at, 1, count, 0);
    MPI_Reduce(at->send, at->recv, count, MPI_DOUBLE, sum, at->size - 1, at->comm);
    return at->rank == at->size - 1 ? count : 0;
}

static int do_scan(const struct place *at, int count) {
    fill(at, 1, count, 0);
    MPI_Scan(at->send, at->recv, count, MPI_DOUBLE, sum, at->comm);
    return count;
}

static int do_exscan(const struct place *at, int count) {
    fill(at, 1, count, 0);
    MPI_Exscan(at->send, at->recv, count, MPI_DOUBLE, sum, at->comm);
    return at->rank > 0 ? count : 0;
}

static int do_reduce_scatter_block(const struct place *at, int count) {
    fill(at, at->size, count, 0);
    MPI_Reduce_scatter_block(at->send, at->recv, count, MPI_DOUBLE, sum, at->comm);
    return count;
}

static int do_reduce_scatter(const struct place *at, int count) {
    int counts[MOST_RANKS];
    for (int r = 0; r < at->size; r++)
        counts[r] = count + r;
    fill(at, at->size, count, 1);
    MPI_Reduce_scatter(at->send, at->recv, counts, MPI_DOUBLE, sum, at->comm);
    return counts[at->rank];
}

static const struct {
    const char *name;
    int (*run)(const struct place *, int count); /* the elements of the result */
} reductions[] = {
    {"allreduce", do_allreduce}, {"reduce", do_reduce},
    {"scan", do_scan},           {"exscan", do_exscan},
    {"reduce_scatter", do_reduce_scatter},
    {"reduce_scatter_block", do_reduce_scatter_block},
};

static int differing(const struct place *at, int (*run)(const struct place *, int)) {
    int found = 0;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        const int got = run(at, lengths[l]);
        if (l == 0)
            memcpy(at->first, at->recv, (size_t)got * sizeof(double));
        for (int i = 0; i < got; i++)
            found += memcmp(&at->first[i], &at->recv[i], sizeof(double)) != 0;
    }
    return found;
}

static void try_on(const char *name, MPI_Comm comm) {
    struct place at = {.comm = comm};
    int world_rank, all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_rank(comm, &at.rank);
    MPI_Comm_size(comm, &at.size);
    at.send = malloc((size_t)at.size * (MOST + MOST_RANKS) * sizeof(double));
    at.recv = malloc((MOST + MOST_RANKS) * sizeof(double));
    at.first = malloc((MOST + MOST_RANKS) * sizeof(double));
    for (size_t c = 0; c < sizeof reductions / sizeof *reductions; c++) {
        const int mine = differing(&at, reductions[c].run);
        PMPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
        if (world_rank == 0)
            printf("%s %s %d\n", name, reductions[c].name, all);
    }
    free(at.send);
    free(at.recv);
    free(at.first);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Comm one_of_each, pair;
    int provided = 0;
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Init_thread(&argc, &argv,
                    strcmp(how, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    if (strcmp(how, "ordered") == 0)
        MPI_Op_create(add, 0, &sum);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &one_of_each);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    try_on("world", MPI_COMM_WORLD);
    try_on("column", one_of_each);
    try_on("pair", pair);
    MPI_Comm_free(&one_of_each);
    MPI_Comm_free(&pair);
    MPI_Finalize();
    return 0;
}
