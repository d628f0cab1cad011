/* mpicc.openmpi -O2 -fopenmp -o build/monte_carlo papers/kernels/monte_carlo.c && mpirun.openmpi --oversubscribe -n 2 build/monte_carlo 50000 20
 * An MPI+OpenMP program like the Monte Carlo code of Mahéo et al. (2014): threads move particles, and every
 * step ends in an allreduce of 128 KiB, outside the parallel region, while all threads but one wait. It knows nothing
 * of Collforge.
 *
 * On the emulated cluster, natively and with winners:
 *   collforge tune --system emulated --rail-model hashed --layout 4x1x2 --mpi openmpi --collective allreduce --sizes 128KiB
 *   collforge cluster run --layout 4x1 --rail-model hashed --mpi openmpi -- build/monte_carlo 50000 20
 *   collforge env --mpi openmpi --system emulated-2x100mbit-hashed > tuned.sh
 *   (. ./tuned.sh && collforge cluster run --layout 4x1 --rail-model hashed --mpi openmpi -- build/monte_carlo 50000 20)
 *
 * Particles walk over a ring of cells, faster where there are more of them, so that each step needs the number in each
 * cell over all ranks. Prints seconds of the slowest rank and a checksum that depends on neither ranks nor threads nor
 * who carried the allreduce: PARTICLES are those of all ranks together.
 */
#include "kernel.h"

enum { CELLS = 16384 }; /* doubles: 128 KiB */

struct particles {
    uint64_t first; /* the number of this rank's first one */
    int count;
    int *cell; /* [count] */
};

/* A random number that follows from particle and step alone. */
static uint64_t draw(uint64_t particle, uint64_t step) {
    return kernel_mix(particle * 0x9E3779B97F4A7C15u + step * 0xD1B54A32D192ED03u);
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

int main(int argc, char **argv) {
    static double count[CELLS];
    static double density[CELLS];
    int rank = 0;
    int size = 0;

    kernel_init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int particles = kernel_argument(argc, argv, 1, 50000);
    const int steps = kernel_argument(argc, argv, 2, 20);
    const int64_t first = (int64_t)particles * rank / size;
    const int64_t end = (int64_t)particles * (rank + 1) / size;
    struct particles p = {(uint64_t)first, (int)(end - first), NULL};
    p.cell = calloc((size_t)p.count + 1, sizeof *p.cell);
    kernel_need(p.cell != NULL, "more memory than there is");
    const double start = kernel_start();
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
        printf("monte_carlo %d ranks, %d steps: %.6f s, of which allreduce %.6f s; checksum %.0f\n", size, steps,
               seconds[0], seconds[1], checksum);
    }
    free(p.cell);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
