/* mpicc.openmpi -O3 -o build/summa_mpi papers/kernels/summa_mpi.c -lm && mpirun.openmpi --oversubscribe -n 4 build/summa_mpi
 * SUMMA with MPI alone; compiled with -fopenmp, with OpenMP threads in each rank.
 *
 * C += A * B on a grid of ranks (R. van de Geijn, J. Watts: SUMMA, Concurrency 9, 1997; a kernel of
 * Zhou et al. (2020), section 5.3.1).
 *
 *   summa_mpi [N [ITERATIONS]]   N by N matrices; so many products are added up
 *
 * Every rank has one block of A, B and C. The inner dimension is cut into panels, such that each
 * lies in one column of the grid's A and in one row of its B. For each panel its owners broadcast
 * their part of A along their rows and their part of B along their columns, and all ranks multiply
 * what they got. On a grid of 2 rows and 4 columns there are 4 panels: panel 1 of A belongs to the
 * ranks of column 1, panel 1 of B to those of row 0.
 */
#include "kernel.h"

enum { SEED_A, SEED_B, SEED_CHECK };

/* A row or a column of the grid, and the panel that one of its ranks sends to the others. */
struct line {
    MPI_Comm comm;
    int rank;
    double *panel;
};

struct grid {
    int rows, columns;
    struct line row, column; /* those of this rank; its number in one is the number of the other */
    int height, width;       /* of its blocks */
    int panels, depth;       /* their number, and how much of the inner dimension each has */
    double *a, *b, *c;       /* [height][width] */
};

static void open_line(struct line *line, int number, int rank, int count) {
    line->rank = rank;
    MPI_Comm_split(MPI_COMM_WORLD, number, rank, &line->comm);
    line->panel = kernel_allocate((size_t)count);
}

static void close_line(struct line *line) {
    free(line->panel);
    MPI_Comm_free(&line->comm);
}

/* Brings height rows of width numbers, which are stride apart at the owner, into all panels. */
static void share(struct line *line, int owner, const double *from, int height, int width,
                  int stride) {
    for (int i = 0; i < height && line->rank == owner; i++) {
        memcpy(line->panel + (size_t)i * width, from + (size_t)i * stride, width * sizeof *from);
    }
    KERNEL_TIMED(MPI_Bcast(line->panel, height * width, MPI_DOUBLE, owner, line->comm));
}

static int least_common_multiple(int a, int b) {
    int multiple = a;

    while (multiple % b != 0) {
        multiple += a;
    }
    return multiple;
}

/* Of an element of this rank's block. */
static double input(const struct grid *g, uint64_t seed, int i, int j) {
    return kernel_input(seed, (uint64_t)(g->column.rank * g->height + i),
                        (uint64_t)(g->row.rank * g->width + j));
}

static void open_grid(struct grid *g, int n) {
    int size = 0;
    int rank = 0;
    int dims[2] = {0, 0};

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Dims_create(size, 2, dims);
    g->columns = dims[0]; /* the larger one: neighbours in a row are neighbours on a node */
    g->rows = dims[1];
    g->panels = least_common_multiple(g->rows, g->columns);
    kernel_need(n % g->panels == 0, "N that is a multiple of the grid's rows and columns");
    g->height = n / g->rows;
    g->width = n / g->columns;
    g->depth = n / g->panels;
    open_line(&g->row, rank / g->columns, rank % g->columns, g->height * g->depth);
    open_line(&g->column, rank % g->columns, rank / g->columns, g->depth * g->width);
    g->a = kernel_allocate((size_t)g->height * g->width);
    g->b = kernel_allocate((size_t)g->height * g->width);
    g->c = kernel_allocate((size_t)g->height * g->width);
    for (int i = 0; i < g->height; i++) {
        for (int j = 0; j < g->width; j++) {
            g->a[(size_t)i * g->width + j] = input(g, SEED_A, i, j);
            g->b[(size_t)i * g->width + j] = input(g, SEED_B, i, j);
            g->c[(size_t)i * g->width + j] = 0;
        }
    }
}

static void close_grid(struct grid *g) {
    close_line(&g->row);
    close_line(&g->column);
    free(g->a);
    free(g->b);
    free(g->c);
}

/* Adds the product of the panels. Every element of C sums up in the order of the inner dimension,
 * whatever the grid. */
static void multiply(const struct grid *g) {
#pragma omp parallel for
    for (int i = 0; i < g->height; i++) {
        double *restrict c = g->c + (size_t)i * g->width;
        for (int k = 0; k < g->depth; k++) {
            const double a = g->row.panel[(size_t)i * g->depth + k];
            const double *restrict b = g->column.panel + (size_t)k * g->width;
            for (int j = 0; j < g->width; j++) {
                c[j] += a * b[j];
            }
        }
    }
}

static void add_product(struct grid *g) {
    const int of_column = g->panels / g->columns; /* panels of A in a block */
    const int of_row = g->panels / g->rows;       /* panels of B in a block */

    for (int p = 0; p < g->panels; p++) {
        const double *a = g->a + (size_t)(p % of_column) * g->depth;
        const double *b = g->b + (size_t)(p % of_row) * g->depth * g->width;
        share(&g->row, p / of_column, a, g->height, g->depth, g->width);
        share(&g->column, p / of_row, b, g->depth, g->width, g->width);
        multiply(g);
    }
}

/* Weighted, so that elements in wrong places change it. */
static double checksum(const struct grid *g) {
    double sum = 0;

    for (int i = 0; i < g->height; i++) {
        for (int j = 0; j < g->width; j++) {
            sum += input(g, SEED_CHECK, i, j) * g->c[(size_t)i * g->width + j];
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    struct grid g = {0};

    kernel_init(&argc, &argv);
    const int n = kernel_argument(argc, argv, 1, 480);
    const int iterations = kernel_argument(argc, argv, 2, 5);
    open_grid(&g, n);
    const double start = kernel_start();
    for (int i = 0; i < iterations; i++) {
        add_product(&g);
    }
    const double seconds = MPI_Wtime() - start;
    kernel_report(seconds, checksum(&g));
    close_grid(&g);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
