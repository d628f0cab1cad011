/* mpicc.openmpi -O3 -o build/poisson_mpi papers/kernels/poisson_mpi.c -lm && mpirun.openmpi --oversubscribe -n 4 build/poisson_mpi
 * A solver of the two-dimensional Poisson equation with MPI alone; compiled with -fopenmp, with
 * OpenMP threads in each rank.
 *
 * Gauss-Seidel on a square grid of which each rank has some rows (a kernel of
 * Zhou et al. (2020), section 5.3.2).
 *
 *   poisson_mpi [N [ITERATIONS]]   N by N inner points; at most so many iterations
 *
 * The points are coloured like a chessboard: those of one colour have neighbours of the other one
 * only, so that the order in which a colour is computed makes no difference, and the result is the
 * same on any number of ranks. After each colour neighbouring ranks exchange the rows between them,
 * after both the largest change of any point tells whether to go on.
 */
#include <math.h>

#include "kernel.h"

enum { SEED_SOURCE, SEED_CHECK };

static const double ENOUGH = 1e-13; /* a change that ends the iterations */

struct grid {
    int n, rank, size;
    int first, end; /* this rank's rows; the inner ones are those from 1 to n */
    int up, down;   /* the ranks to exchange rows with */
    double *source; /* [end - first][n] */
    double *u;      /* [n + 2][n + 2]; a rank touches its own rows and the two beside them only */
    double *most;   /* of all ranks' changes; stands behind u */
};

static double *row(const struct grid *g, int i) {
    return g->u + (size_t)i * (g->n + 2);
}

/* The rank to exchange rows with, if any. */
static int neighbour(const struct grid *g, int rank) {
    return rank < 0 || rank >= g->size ? MPI_PROC_NULL : rank;
}

static int first_row(const struct grid *g, int rank) {
    return 1 + (int)((int64_t)g->n * rank / g->size);
}

/* Room for all points, wherever a rank's are. What is not touched takes no memory. */
static void allocate(struct grid *g) {
    const size_t points = (size_t)(g->n + 2) * (g->n + 2);

    g->u = kernel_allocate(points + 1);
    g->most = g->u + points;
    g->source = kernel_allocate((size_t)(g->end - g->first) * g->n);
}

static void exchange(const struct grid *g) {
    const int count = g->n + 2;

    MPI_Sendrecv(row(g, g->first), count, MPI_DOUBLE, g->up, 0, row(g, g->end), count, MPI_DOUBLE,
                 g->down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(g, g->end - 1), count, MPI_DOUBLE, g->down, 0, row(g, g->first - 1), count,
                 MPI_DOUBLE, g->up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void open_grid(struct grid *g, int n) {
    MPI_Comm_rank(MPI_COMM_WORLD, &g->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g->size);
    kernel_need(n >= 2 * g->size, "N that gives every rank two rows");
    g->n = n;
    g->first = first_row(g, g->rank);
    g->end = first_row(g, g->rank + 1);
    allocate(g);
    g->up = neighbour(g, g->rank - 1);
    g->down = neighbour(g, g->rank + 1);
    for (int i = g->first; i < g->end; i++) {
        for (int j = 0; j < n; j++) {
            g->source[(size_t)(i - g->first) * n + j] =
                kernel_input(SEED_SOURCE, (uint64_t)i, (uint64_t)j + 1) / n / n;
        }
    }
    /* The border has an owner, too: nobody else stores into a rank's rows. */
    const int above = g->first - (g->rank == 0);
    const int below = g->end + (g->rank == g->size - 1);
    memset(row(g, above), 0, (size_t)(below - above) * (n + 2) * sizeof *g->u);
    exchange(g);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Computes the points of one colour; the largest change. */
static double sweep(const struct grid *g, int colour) {
    double most = 0;

#pragma omp parallel for reduction(max : most)
    for (int i = g->first; i < g->end; i++) {
        const double *source = g->source + (size_t)(i - g->first) * g->n;
        const double *above = row(g, i - 1);
        const double *below = row(g, i + 1);
        double *here = row(g, i);
        for (int j = 1 + (i + colour) % 2; j <= g->n; j += 2) {
            const double old = here[j];
            here[j] = 0.25 * (above[j] + below[j] + here[j - 1] + here[j + 1] + source[j - 1]);
            most = larger(most, fabs(here[j] - old));
        }
    }
    return most;
}

/* The largest change of all ranks. */
static double iterate(const struct grid *g) {
    double change = sweep(g, 0);

    exchange(g);
    change = larger(change, sweep(g, 1));
    exchange(g);
    KERNEL_TIMED(MPI_Allreduce(&change, g->most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    return *g->most;
}

/* Weighted, so that points in wrong places change it. */
static double checksum(const struct grid *g) {
    double sum = 0;

    for (int i = g->first; i < g->end; i++) {
        for (int j = 1; j <= g->n; j++) {
            sum += kernel_input(SEED_CHECK, (uint64_t)i, (uint64_t)j) * row(g, i)[j];
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    struct grid g = {0};

    kernel_init(&argc, &argv);
    const int n = kernel_argument(argc, argv, 1, 256);
    const int iterations = kernel_argument(argc, argv, 2, 2000);
    open_grid(&g, n);
    const double start = kernel_start();
    for (int i = 0; i < iterations && iterate(&g) > ENOUGH; i++) {
    }
    const double seconds = MPI_Wtime() - start;
    kernel_report(seconds, checksum(&g));
    free(g.source);
    free(g.u);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
