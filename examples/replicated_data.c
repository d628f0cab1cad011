/* mpicc.openmpi -O2 -Iruntime/include -o build/replicated_data examples/replicated_data.c -Lbuild/openmpi -lcollforge -Wl,-rpath,$PWD/build/openmpi && mpirun.openmpi --oversubscribe -n 4 build/replicated_data 16
 * What a vector that every rank reads costs a node: a copy per rank, as with MPI alone, and a copy per node, as with
 * collforge_hybrid.h. Rank 0 has the data; every rank checks all of it both times.
 *
 *   collforge cluster run --layout 4x4 --mpi openmpi -- build/replicated_data 64
 *
 * The argument is the vector's size in MiB. Prints by how many MiB the memory of the fullest node grew (the sum of its ranks'
 * Pss in /proc/self/smaps_rollup, in which a page that n processes share counts 1/n for each).
 */
#include "collforge_hybrid.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the program on all ranks unless what it needs holds. */
static void need(int holds, const char *what) {
    if (!holds) {
        (void)fprintf(stderr, "replicated_data needs %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* This process's part of the memory that it has, in KiB; negative where the system does not tell. */
static double resident(void) {
    char line[256];
    double kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "Pss: %lf", &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

/* Of all ranks of a node, on the node that has most, in MiB; on every rank. */
static double fullest_node(const struct collforge_hybrid *hybrid) {
    double node = 0;
    double most = 0;

    /* A page that a rank has not touched yet counts in full for the others: all have to be done. */
    MPI_Barrier(hybrid->comm);
    double mine = resident() / 1024;
    MPI_Barrier(hybrid->comm);
    MPI_Allreduce(&mine, &node, 1, MPI_DOUBLE, MPI_SUM, hybrid->node_comm);
    MPI_Allreduce(&node, &most, 1, MPI_DOUBLE, MPI_MAX, hybrid->comm);
    return most;
}

static void read_input(double *data, size_t count) {
    for (size_t i = 0; i < count; i++) {
        data[i] = (double)i;
    }
}

static void check(const double *data, size_t count) {
    for (size_t i = 0; i < count; i++) {
        need(data[i] == (double)i, "its input unchanged");
    }
}

static double copy_per_rank(const struct collforge_hybrid *hybrid, size_t count) {
    const double before = fullest_node(hybrid);
    double *data = malloc(count * sizeof *data);

    need(data != NULL, "more memory");
    if (hybrid->rank == 0) {
        read_input(data, count);
    }
    MPI_Bcast(data, (int)count, MPI_DOUBLE, 0, hybrid->comm);
    check(data, count);
    const double grown = fullest_node(hybrid) - before;
    free(data);
    return grown;
}

static double copy_per_node(struct collforge_hybrid *hybrid, size_t count) {
    const double before = fullest_node(hybrid);
    double *data = NULL;

    collforge_hybrid_alloc(hybrid, (MPI_Aint)(count * sizeof *data), &data);
    if (hybrid->rank == 0) {
        read_input(data, count);
    }
    collforge_hybrid_bcast(data, (int)count, MPI_DOUBLE, 0, hybrid);
    check(data, count);
    const double grown = fullest_node(hybrid) - before;
    collforge_hybrid_release(hybrid, data);
    return grown;
}

int main(int argc, char **argv) {
    struct collforge_hybrid *hybrid = NULL;

    MPI_Init(&argc, &argv);
    const int mib = argc > 1 ? atoi(argv[1]) : 16;
    const size_t count = (size_t)mib * (1024 * 1024 / sizeof(double));
    need(mib > 0 && mib < 2048 && resident() >= 0, "1 to 2047 MiB, and /proc/self/smaps_rollup");
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    (void)copy_per_rank(hybrid, 1024); /* the first calls fill buffers of the MPI library */
    (void)copy_per_node(hybrid, 1024);
    const double by_rank = copy_per_rank(hybrid, count);
    const double by_node = copy_per_node(hybrid, count);
    if (hybrid->rank == 0) {
        printf("%d MiB on nodes of %d ranks: a copy per rank %.1f MiB, a copy per node %.1f MiB, ratio %.3f\n", mib,
               hybrid->node_size, by_rank, by_node, by_node / by_rank);
    }
    collforge_hybrid_free(&hybrid);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
