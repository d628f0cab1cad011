/*
 * An MPI+OpenMP program like the Monte Carlo code of papers/thread-split-rank-shift: threads move particles, and every
 * step ends in an allreduce of 128 KiB, outside the parallel region, while all threads but one wait. It knows nothing
 * of Collforge.
 *
 *   mpicc.openmpi -O2 -fopenmp -o build/monte_carlo examples/monte_carlo.c
 *   collforge cluster run --nodes 4 --ranks-per-node 1 --rail-model hashed --mpi openmpi -- build/monte_carlo 50000 20
 *   (eval "$(collforge env --mpi openmpi --system emulated-2x100mbit-hashed)"; the same again)
 *
 * Particles walk over a ring of cells, faster where there are more of them, so that each step needs the number in each
 * cell over all ranks. Prints seconds of the slowest rank and a checksum that depends on neither ranks nor threads nor
 * who carried the allreduce: PARTICLES are those of all ranks together.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 16384 }; /* doubles: 128 KiB */

struct particles {
    uint64_t first; /* the number of this rank's first one */
    int count;
    int *cell; /* [count] */
};

/* A random number that follows from particle and step alone (the finalizer of splitmix64). */
static uint64_t draw(uint64_t particle, uint64_t step) {
    uint64_t x = particle * 0x9E3779B97F4A7C15u + step * 0xD1B54A32D192ED03u + 1;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static void move(struct particles *p, const double *density, uint64_t step) {
#pragma omp parallel for
    for (int i = 0; i < p->count; i++) {
        const uint64_t random = draw(p->first + (uint64_t)i, step);
        const int range = 1 + (int)density[p->cell[i]];
        const int hop = (int)(random % (uint64_t)(2 * range + 1)) - range;
        p->cell[i] = ((p->cell[i] + hop) % CELLS + CELLS) % CELLS;
    }
}

/* Of this rank's particles. Whole numbers: their sum is the same in any order. */
static void count_cells(const struct particles *p, double *count) {
    memset(count, 0, CELLS * sizeof *count);
    for (int i = 0; i < p->count; i++) {
        count[p->cell[i]]++;
    }
}

static int argument(char **argv, int place) {
    const long value = strtol(argv[place], NULL, 10);

    if (value < 1 || value > 100000000) {
        (void)fprintf(stderr, "usage: monte_carlo PARTICLES STEPS, numbers from 1 to 100000000\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (int)value;
}

int main(int argc, char **argv) {
    static double count[CELLS];
    static double density[CELLS];
    int provided = 0;
    int rank = 0;
    int size = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int particles = argc > 1 ? argument(argv, 1) : 50000;
    const int steps = argc > 2 ? argument(argv, 2) : 20;
    const int64_t first = (int64_t)particles * rank / size;
    const int64_t end = (int64_t)particles * (rank + 1) / size;
    struct particles p = {(uint64_t)first, (int)(end - first), NULL};
    p.cell = calloc((size_t)p.count + 1, sizeof *p.cell);
    if (p.cell == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    double waited = 0;
    for (int step = 0; step < steps; step++) {
        move(&p, density, (uint64_t)step);
        count_cells(&p, count);
        const double before = MPI_Wtime();
        MPI_Allreduce(count, density, CELLS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        waited += MPI_Wtime() - before;
    }
    double seconds[2] = {MPI_Wtime() - start, waited};
    MPI_Allreduce(MPI_IN_PLACE, seconds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double checksum = 0;
    for (int cell = 0; cell < CELLS; cell++) {
        checksum += density[cell] * (cell + 1);
    }
    if (rank == 0) {
        printf("monte_carlo %d ranks, %d steps: %.4f s, of which allreduce %.4f s; checksum %.0f\n", size, steps,
               seconds[0], seconds[1], checksum);
    }
    free(p.cell);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
