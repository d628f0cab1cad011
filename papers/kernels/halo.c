/* mpicc.openmpi -O2 -fopenmp -o build/halo papers/kernels/halo.c && OMP_NUM_THREADS=2 mpirun.openmpi --oversubscribe -n 2 build/halo parallel 256 100
 * The halo exchange of a two-dimensional stencil by threads, each on communicators of its own or all on one
 * (Zambre et al., 2020, section 6.1): what threads gain where an MPI library gives communicators
 * resources of their own.
 *
 * The ranks are a grid, each with EDGE x EDGE points, of which every thread has a strip of columns: it exchanges the
 * ends of its columns with the ranks above and below, and the first and the last thread their outer columns with those
 * at the sides. In parallel, thread t uses two sets of communicators for each direction. Those of the even set lie
 * between grid rows (or columns) 0 and 1, 2 and 3, ..., those of the odd set between 1 and 2, 3 and 4, ...: so thread t
 * of a rank never shares one with another thread of its rank. In serial all use thread 0's, and tags. In funneled,
 * thread 0 exchanges for all.
 *
 * A fourth argument, ACROSS, gives each rank EDGE / ACROSS columns and puts ACROSS ranks side by side: processes in the
 * place of threads (everywhere).
 *
 * Prints seconds of the slowest rank, those of its exchanges with the wait for slower ranks, and a checksum, which is the
 * same in every mode.
 */
#include <omp.h>

#include "kernel.h"

enum { VERTICAL, SIDEWAYS, DIRECTIONS, MOST_THREADS = 64 };

struct grid {
    int rows, columns; /* of this rank */
    int threads;
    int parallel;
    int funneled;
    int place[DIRECTIONS];        /* row and column of this rank */
    int neighbour[DIRECTIONS][2]; /* before and behind; MPI_PROC_NULL at the border */
    double *now, *next;           /* [rows + 2][columns + 2] */
    MPI_Comm comm[DIRECTIONS][2][MOST_THREADS];
};

static double *at(const struct grid *g, double *field, int row, int column) {
    return &field[(size_t)row * (size_t)(g->columns + 2) + (size_t)column];
}

/* The number of a row or column in the whole mesh. */
static int line(const struct grid *g, int direction, int number) {
    return g->place[direction] * (direction == VERTICAL ? g->rows : g->columns) + number;
}

/* The communicator over the border behind a row or column (or before it), for thread t. */
static MPI_Comm border(const struct grid *g, int direction, int behind, int thread) {
    const int lower = g->place[direction] - !behind; /* the row or column before the border */

    return g->comm[direction][(lower + 2) % 2][g->parallel ? thread : 0];
}

/* In series messages of threads and directions meet in one communicator. */
static int tag(int thread, int direction, int onwards) {
    return (thread * DIRECTIONS + direction) * 2 + onwards;
}

struct exchange {
    MPI_Request request[8];
    int n;
};

static void swap(const struct grid *g, struct exchange *e, int thread, int direction, int behind, double *out,
                 double *in, int count, MPI_Datatype type) {
    const int other = g->neighbour[direction][behind];
    const MPI_Comm comm = border(g, direction, behind, thread);

    MPI_Irecv(in, count, type, other, tag(thread, direction, !behind), comm, &e->request[e->n++]);
    MPI_Isend(out, count, type, other, tag(thread, direction, behind), comm, &e->request[e->n++]);
}

/* Columns first to end - 1 are this thread's. At the sides the first thread of one rank meets the last one of another,
 * on the communicator of thread 0 of either. */
static void exchange(const struct grid *g, int thread, int first, int end, MPI_Datatype column) {
    const int n = g->rows;
    struct exchange e = {.n = 0};

    swap(g, &e, thread, VERTICAL, 0, at(g, g->now, 1, first), at(g, g->now, 0, first), end - first, MPI_DOUBLE);
    swap(g, &e, thread, VERTICAL, 1, at(g, g->now, n, first), at(g, g->now, n + 1, first), end - first, MPI_DOUBLE);
    if (first == 1) {
        swap(g, &e, 0, SIDEWAYS, 0, at(g, g->now, 1, 1), at(g, g->now, 1, 0), 1, column);
    }
    if (end == g->columns + 1) {
        swap(g, &e, 0, SIDEWAYS, 1, at(g, g->now, 1, end - 1), at(g, g->now, 1, end), 1, column);
    }
    MPI_Waitall(e.n, e.request, MPI_STATUSES_IGNORE);
}

static void relax(const struct grid *g, int first, int end) {
    for (int row = 1; row <= g->rows; row++) {
        for (int column = first; column < end; column++) {
            *at(g, g->next, row, column) =
                0.2 * (*at(g, g->now, row, column) + *at(g, g->now, row - 1, column) + *at(g, g->now, row + 1, column) +
                       *at(g, g->now, row, column - 1) + *at(g, g->now, row, column + 1));
        }
    }
}

/* Returns the seconds of the exchanges. */
static double iterate(struct grid *g, int iterations) {
    double seconds = 0;
    MPI_Datatype column;

    MPI_Type_vector(g->rows, 1, g->columns + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
#pragma omp parallel num_threads(g->threads)
    {
        const int thread = omp_get_thread_num();
        const int first = 1 + g->columns * thread / g->threads;
        const int end = 1 + g->columns * (thread + 1) / g->threads;
        for (int i = 0; i < iterations; i++) {
            const double start = MPI_Wtime();
            if (!g->funneled) {
                exchange(g, thread, first, end, column);
            } else if (thread == 0) {
                exchange(g, 0, 1, g->columns + 1, column);
            }
#pragma omp barrier
            if (thread == 0) {
                seconds += MPI_Wtime() - start;
            }
            relax(g, first, end);
#pragma omp barrier
#pragma omp single
            {
                double *field = g->now;
                g->now = g->next;
                g->next = field;
            }
        }
    }
    MPI_Type_free(&column);
    return seconds;
}

static void open_grid(struct grid *g, int edge, int across) {
    int size = 0;
    int rank = 0;
    int dims[DIRECTIONS] = {0, across};
    const int periods[DIRECTIONS] = {0, 0};
    MPI_Comm cart;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, DIRECTIONS, dims);
    MPI_Cart_create(MPI_COMM_WORLD, DIRECTIONS, dims, periods, 0, &cart);
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, DIRECTIONS, g->place);
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        MPI_Cart_shift(cart, direction, 1, &g->neighbour[direction][0], &g->neighbour[direction][1]);
        for (int set = 0; set < 2; set++) {
            for (int t = 0; t < (g->parallel ? g->threads : 1); t++) {
                MPI_Comm_dup(cart, &g->comm[direction][set][t]);
            }
        }
    }
    MPI_Comm_free(&cart);
    g->rows = edge;
    g->columns = across > 0 ? edge / across : edge;
    const size_t points = (size_t)(g->rows + 2) * (size_t)(g->columns + 2);
    g->now = calloc(points, sizeof *g->now);
    g->next = calloc(points, sizeof *g->next);
    kernel_need(g->now != NULL && g->next != NULL, "more memory than there is");
    for (int row = 1; row <= g->rows; row++) {
        for (int column = 1; column <= g->columns; column++) {
            *at(g, g->now, row, column) = (line(g, VERTICAL, row) * 17 + line(g, SIDEWAYS, column) * 7) % 101;
        }
    }
}

static double checksum(const struct grid *g) {
    double sum = 0;
    double total = 0;

    for (int row = 1; row <= g->rows; row++) {
        for (int column = 1; column <= g->columns; column++) {
            sum += *at(g, g->now, row, column) * (1 + (line(g, VERTICAL, row) * 3 + line(g, SIDEWAYS, column)) % 5);
        }
    }
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

static void close_grid(struct grid *g) {
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        for (int set = 0; set < 2; set++) {
            for (int t = 0; t < (g->parallel ? g->threads : 1); t++) {
                MPI_Comm_free(&g->comm[direction][set][t]);
            }
        }
    }
    free(g->now);
    free(g->next);
}

int main(int argc, char **argv) {
    struct grid g = {0};
    int provided = 0;
    int rank = 0;
    const char *mode = argc > 1 ? argv[1] : "serial";

    g.parallel = strcmp(mode, "parallel") == 0;
    g.funneled = strcmp(mode, "funneled") == 0;
    const int wanted = g.funneled ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int edge = kernel_argument(argc, argv, 2, 256);
    const int iterations = kernel_argument(argc, argv, 3, 500);
    const int across = argc > 4 ? kernel_argument(argc, argv, 4, 1) : 0;
    g.threads = omp_get_max_threads();
    kernel_need(provided >= wanted, "threads that may call MPI");
    kernel_need(g.threads <= MOST_THREADS && g.threads <= edge, "at most 64 threads, and no more than EDGE");
    kernel_need(across <= edge && (across == 0 || edge % across == 0), "EDGE is a multiple of ACROSS");
    open_grid(&g, edge, across);
    const double start = kernel_start();
    double seconds[2] = {0};
    seconds[1] = iterate(&g, iterations);
    seconds[0] = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, seconds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const double sum = checksum(&g);
    if (rank == 0) {
        printf("halo %s %.6f %.6f %.15g\n", mode, seconds[0], seconds[1], sum);
    }
    close_grid(&g);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
