/*
 * How many lanes a node has: collforge probe lanes. The lane pattern benchmark and the
 * multi-collective benchmark of Träff and Hunold (2020), section II.
 *
 *   lanes OUTPUT RANKS_PER_NODE EXCHANGES REPETITIONS K,... BYTES,... BENCHMARK...
 *
 * The ranks of a node follow each other in MPI_COMM_WORLD. For every size and every K, as many
 * repetitions, those of all K in turn:
 *
 *   pattern   every node sends BYTES (of MPI_INT) and receives as many, EXCHANGES times without a
 *             barrier. They are divided evenly over the first K ranks of the node; the first one
 *             takes the rest. Rank i sends to (i + RANKS_PER_NODE) mod p, by MPI_Sendrecv.
 *   alltoall  the first K lane communicators (one rank of each node) run MPI_Alltoall at once, of
 *             BYTES on each rank.
 *
 * OUTPUT gets a line of JSON for each benchmark, size and K: "seconds" is the completion time of
 * the slowest rank in each repetition. The first repetitions are not counted, unless one suffices,
 * as in a simulation.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum { WARM_UP = 3, MOST_REPETITIONS = 10000 };

static int rank, size;
static int per_node, exchanges, repetitions;
static MPI_Comm lane = MPI_COMM_NULL;
static int *sent, *received;

static void must(int err) {
    if (err != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void run_pattern(int bytes, int k) {
    const int all = bytes / (int)sizeof(int);
    const int local = rank % per_node;
    const int count = all / k + (local == 0 ? all % k : 0);
    const int to = (rank + per_node) % size;
    const int from = (rank - per_node + size) % size;
    if (local >= k) {
        return;
    }
    for (int i = 0; i < exchanges; i++) {
        must(MPI_Sendrecv(sent, count, MPI_INT, to, 0, received, count, MPI_INT, from, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void run_alltoall(int bytes, int k) {
    const int block = bytes / (int)sizeof(int) / (size / per_node);
    if (rank % per_node < k) {
        must(MPI_Alltoall(sent, block, MPI_INT, received, block, MPI_INT, lane));
    }
}

static const struct benchmark {
    const char *name;
    void (*run)(int bytes, int k);
} benchmarks[] = {{"pattern", run_pattern}, {"alltoall", run_alltoall}};

/* NULL: there is none of this name. */
static const struct benchmark *find(const char *name) {
    for (size_t i = 0; i < sizeof benchmarks / sizeof *benchmarks; i++) {
        if (strcmp(benchmarks[i].name, name) == 0) {
            return &benchmarks[i];
        }
    }
    return NULL;
}

static void measure(FILE *out, const struct benchmark *benchmark, int bytes,
                    const struct numbers *ks) {
    static double seconds[MOST_NUMBERS][MOST_REPETITIONS];
    for (int r = repetitions > 1 ? -WARM_UP : 0; r < repetitions; r++) {
        for (int i = 0; i < ks->count; i++) {
            must(MPI_Barrier(MPI_COMM_WORLD));
            const double begin = MPI_Wtime();
            benchmark->run(bytes, ks->value[i]);
            if (r >= 0) {
                seconds[i][r] = MPI_Wtime() - begin;
            }
        }
    }
    for (int i = 0; i < ks->count; i++) {
        must(MPI_Reduce(rank == 0 ? MPI_IN_PLACE : seconds[i], seconds[i], repetitions, MPI_DOUBLE,
                        MPI_MAX, 0, MPI_COMM_WORLD));
        if (rank != 0) {
            continue;
        }
        fprintf(out, "{\"benchmark\": \"%s\", \"bytes\": %d, \"lanes\": %d, \"seconds\": [",
                benchmark->name, bytes, ks->value[i]);
        for (int r = 0; r < repetitions; r++) {
            fprintf(out, "%s%.9f", r == 0 ? "" : ", ", seconds[i][r]);
        }
        fputs("]}\n", out);
    }
}

int main(int argc, char **argv) {
    must(MPI_Init(&argc, &argv));
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    must(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (argc < 8) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 7; i < argc; i++) {
        if (find(argv[i]) == NULL) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    per_node = atoi(argv[2]);
    exchanges = atoi(argv[3]);
    repetitions = atoi(argv[4]);
    const struct numbers ks = read_numbers(argv[5], 1);
    const struct numbers sizes = read_numbers(argv[6], 0);
    if (per_node < 1 || size % per_node != 0 || exchanges < 1 || repetitions < 1 ||
        repetitions > MOST_REPETITIONS || ks.count == 0 || largest(&ks) > per_node ||
        sizes.count == 0) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    FILE *out = rank == 0 ? fopen(argv[1], "w") : NULL;
    sent = calloc(1, (size_t)largest(&sizes) + 1);
    received = calloc(1, (size_t)largest(&sizes) + 1);
    if ((rank == 0 && out == NULL) || sent == NULL || received == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    must(MPI_Comm_split(MPI_COMM_WORLD, rank % per_node, rank, &lane));
    for (int i = 0; i < sizes.count; i++) {
        for (int j = 7; j < argc; j++) {
            measure(out, find(argv[j]), sizes.value[i], &ks);
        }
    }
    must(MPI_Comm_free(&lane));
    free(sent);
    free(received);
    if (out != NULL && fclose(out) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
