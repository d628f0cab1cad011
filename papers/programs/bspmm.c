/*
 * A block-sparse matrix multiplication, C += A B: collforge probe mini-apps --app bspmm, after
 * Zambre, Chandramowlishwaran and Balaji (2020), section 6.3.
 *
 *   bspmm everywhere|ser_comm|par_comm WORKERS TILES ordered|unordered BYTES...
 *
 * The matrices have TILES x TILES tiles of BYTES; about half of those of A and B are zero. The
 * other ones, and those of C, are dealt to the ranks in turn. A unit of work is a product of two
 * tiles that are not zero; all ranks know the list, which goes tile by tile of C. A worker takes
 * the next unit from a counter on rank 0 (MPI_Fetch_and_op), gets both tiles, and adds their
 * product to a tile of its own, which it accumulates into C when its next unit is of another one.
 * Threads may fetch over windows of their own, but all accumulate over one window, because MPI's
 * accumulates are not atomic across windows. unordered: that window has accumulate_ordering=none.
 * Prints for each size the microseconds of each part, the mean over all units. Fails if C is wrong.
 */
#include <math.h>

#include "one_sided.h"

enum { A, B, MATRICES };
enum { FETCH_AND_OP, GET, GET_FLUSH, ACCUMULATE, ACCUMULATE_FLUSH, PARTS };

struct unit {
    int row, column; /* of the tile of C */
    int k;
};

struct product {
    struct workers w;
    int tiles; /* the edge of a matrix */
    int edge;  /* of a tile, in doubles */
    bool unordered;
    int *place[MATRICES]; /* of a tile in the order in which they are dealt; -1: it is zero */
    struct unit *units;
    int number;     /* of units */
    double *inputs; /* this rank's tiles of A and B */
    double *output; /* those of C */
    int64_t *counter;
    MPI_Win sums, count;
};

static size_t doubles(const struct product *p) {
    return (size_t)p->edge * (size_t)p->edge;
}

/* An element of A or B, a small whole number: all sums are exact. */
static double element(const struct product *p, int matrix, int row, int column) {
    if (p->place[matrix][row / p->edge * p->tiles + column / p->edge] < 0) {
        return 0;
    }
    return (
        double)(kernel_mix(kernel_mix((uint64_t)matrix + 2 * (uint64_t)row) + (uint64_t)column) %
                3);
}

static void list_units(struct product *p) {
    const int all = p->tiles * p->tiles;
    int dealt = 0;

    p->units = malloc((size_t)all * (size_t)p->tiles * sizeof *p->units);
    kernel_need(p->units != NULL, "more memory than there is");
    for (int matrix = A; matrix < MATRICES; matrix++) {
        p->place[matrix] = malloc((size_t)all * sizeof *p->place[matrix]);
        kernel_need(p->place[matrix] != NULL, "more memory than there is");
        for (int i = 0; i < all; i++) {
            p->place[matrix][i] =
                kernel_input((uint64_t)matrix, (uint64_t)i, 0) < 0.5 ? dealt++ : -1;
        }
    }
    for (int i = 0; i < all; i++) {
        for (int k = 0; k < p->tiles; k++) {
            const struct unit unit = {i / p->tiles, i % p->tiles, k};
            if (p->place[A][unit.row * p->tiles + k] >= 0 &&
                p->place[B][k * p->tiles + unit.column] >= 0) {
                p->units[p->number++] = unit;
            }
        }
    }
    kernel_need(p->number > 0, "more TILES");
}

static double *allocate_tiles(const struct product *p, int all) {
    return kernel_allocate((size_t)(all / p->w.size + 1) * doubles(p));
}

static void fill(struct product *p, int matrix) {
    for (int tile = 0; tile < p->tiles * p->tiles; tile++) {
        const int place = p->place[matrix][tile];
        if (place < 0 || place % p->w.size != p->w.rank) {
            continue;
        }
        double *data = p->inputs + (size_t)(place / p->w.size) * doubles(p);
        for (int i = 0; i < p->edge * p->edge; i++) {
            data[i] = element(p, matrix, tile / p->tiles * p->edge + i / p->edge,
                              tile % p->tiles * p->edge + i % p->edge);
        }
    }
}

static void open_product(struct product *p) {
    const int all = p->tiles * p->tiles;
    const size_t bytes = (size_t)(all / p->w.size + 1) * doubles(p) * sizeof(double);
    MPI_Info unordered = MPI_INFO_NULL;

    p->inputs = allocate_tiles(p, MATRICES * all);
    p->output = allocate_tiles(p, all);
    memset(p->output, 0, bytes);
    p->counter = calloc(1, sizeof *p->counter); /* MPICH 4.0 misses windows over the stack */
    kernel_need(p->counter != NULL, "more memory than there is");
    fill(p, A);
    fill(p, B);
    if (p->unordered) {
        must(MPI_Info_create(&unordered));
        must(MPI_Info_set(unordered, "accumulate_ordering", "none"));
    }
    open_fetches(&p->w, p->inputs,
                 (size_t)(MATRICES * all / p->w.size + 1) * doubles(p) * sizeof(double));
    p->sums = open_window(p->output, bytes, unordered);
    p->count = open_window(p->counter, sizeof *p->counter, MPI_INFO_NULL);
    if (p->unordered) {
        must(MPI_Info_free(&unordered));
    }
}

static void close_product(struct product *p) {
    close_fetches(&p->w);
    close_window(&p->sums);
    close_window(&p->count);
    free(p->inputs);
    free(p->output);
    free(p->counter);
}

/* The number of the next unit. */
static int64_t next_unit(const struct product *p, double *parts) {
    const int64_t one = 1;
    int64_t number = 0;
    const double begin = MPI_Wtime();

    must(MPI_Fetch_and_op(&one, &number, MPI_INT64_T, 0, 0, MPI_SUM, p->count));
    must(MPI_Win_flush(0, p->count));
    parts[FETCH_AND_OP] += MPI_Wtime() - begin;
    return number;
}

static void get_inputs(const struct product *p, const struct unit *unit, double *data,
                       double *parts) {
    const MPI_Win window = fetch_window(&p->w);
    const int n = (int)doubles(p);
    const int place[MATRICES] = {p->place[A][unit->row * p->tiles + unit->k],
                                 p->place[B][unit->k * p->tiles + unit->column]};
    const double begin = MPI_Wtime();

    for (int i = A; i < MATRICES; i++) {
        must(MPI_Get(data + i * n, n, MPI_DOUBLE, place[i] % p->w.size,
                     (MPI_Aint)(place[i] / p->w.size) * n, n, MPI_DOUBLE, window));
    }
    const double issued = MPI_Wtime();
    for (int i = A; i < MATRICES; i++) {
        must(MPI_Win_flush(place[i] % p->w.size, window));
    }
    parts[GET] += issued - begin;
    parts[GET_FLUSH] += MPI_Wtime() - issued;
}

static void multiply(const struct product *p, const double *a, const double *b, double *sum) {
    const int n = p->edge;

    for (int row = 0; row < n; row++) {
        for (int k = 0; k < n; k++) {
            for (int column = 0; column < n; column++) {
                sum[row * n + column] += a[row * n + k] * b[k * n + column];
            }
        }
    }
}

/* Adds the tile of a unit to C, and clears it. */
static void accumulate(const struct product *p, const struct unit *unit, double *sum,
                       double *parts) {
    const int tile = unit->row * p->tiles + unit->column;
    const int owner = tile % p->w.size;
    const int n = (int)doubles(p);
    const double begin = MPI_Wtime();

    must(MPI_Accumulate(sum, n, MPI_DOUBLE, owner, (MPI_Aint)(tile / p->w.size) * n, n, MPI_DOUBLE,
                        MPI_SUM, p->sums));
    const double issued = MPI_Wtime();
    must(MPI_Win_flush(owner, p->sums));
    parts[ACCUMULATE] += issued - begin;
    parts[ACCUMULATE_FLUSH] += MPI_Wtime() - issued;
    memset(sum, 0, doubles(p) * sizeof *sum);
}

/* Of one worker, until no unit is left. */
static void work(const struct product *p, double *parts) {
    double *data = kernel_allocate((MATRICES + 1) * doubles(p));
    double *sum = data + MATRICES * doubles(p);
    const struct unit *last = NULL;

    memset(sum, 0, doubles(p) * sizeof *sum);
    for (int64_t i = next_unit(p, parts); i < p->number; i = next_unit(p, parts)) {
        const struct unit *unit = &p->units[i];
        if (last != NULL && (last->row != unit->row || last->column != unit->column)) {
            accumulate(p, last, sum, parts);
        }
        get_inputs(p, unit, data, parts);
        multiply(p, data, data + doubles(p), sum);
        last = unit;
    }
    if (last != NULL) {
        accumulate(p, last, sum, parts);
    }
    free(data);
}

/* out = matrix in; both have tiles * edge elements. */
static void apply(const struct product *p, int matrix, const double *in, double *out) {
    const int n = p->tiles * p->edge;

    for (int row = 0; row < n; row++) {
        out[row] = 0;
        for (int column = 0; column < n; column++) {
            out[row] += element(p, matrix, row, column) * in[column];
        }
    }
}

/* Whether C x = A (B x) for a vector x of small random numbers (Freivalds' check). */
static bool is_right(const struct product *p) {
    const int n = p->tiles * p->edge;
    double *x = kernel_allocate((size_t)n * 3);
    double *right = x + n;
    double *found = right + n;
    bool same = true;

    must(MPI_Win_sync(p->sums));
    for (int i = 0; i < n; i++) {
        x[i] = (double)(kernel_mix((uint64_t)i) % 4);
    }
    apply(p, B, x, found);
    apply(p, A, found, right);
    memset(found, 0, (size_t)n * sizeof *found);
    for (int tile = p->w.rank; tile < p->tiles * p->tiles; tile += p->w.size) {
        const double *data = p->output + (size_t)(tile / p->w.size) * doubles(p);
        for (int i = 0; i < p->edge * p->edge; i++) {
            found[tile / p->tiles * p->edge + i / p->edge] +=
                data[i] * x[tile % p->tiles * p->edge + i % p->edge];
        }
    }
    must(MPI_Allreduce(MPI_IN_PLACE, found, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) {
        same = same && found[i] == right[i];
    }
    free(x);
    return same;
}

static void measure(struct product *p, int bytes, bool first) {
    static const char *const names[PARTS] = {"fetch_and_op", "get", "get_flush", "accumulate",
                                             "accumulate_flush"};
    double sums[PARTS] = {0};

    p->edge = (int)sqrt((double)bytes / sizeof(double));
    p->edge = p->edge < 1 ? 1 : p->edge;
    open_product(p);
    must(MPI_Barrier(MPI_COMM_WORLD));
#pragma omp parallel num_threads(p->w.threads) reduction(+ : sums[ : PARTS])
    work(p, sums);
    must(MPI_Barrier(MPI_COMM_WORLD));
    if (!is_right(p)) {
        (void)fprintf(stderr, "bspmm: a wrong product with tiles of %d bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    close_product(p);
    print_parts(&p->w, first, bytes, names, sums, PARTS, p->number);
}

int main(int argc, char **argv) {
    struct product p = {0};

    start_workers(&p.w, &argc, &argv);
    p.tiles = kernel_argument(argc, argv, 3, 12);
    kernel_need(p.tiles <= 100, "at most 100 TILES");
    p.unordered = argc > 4 && strcmp(argv[4], "unordered") == 0;
    list_units(&p);
    for (int i = 5; i < argc; i++) {
        const int bytes = kernel_argument(argc, argv, i, 8);
        kernel_need(bytes <= MOST_BYTES, "tiles of 2 MiB at most");
        measure(&p, bytes, i == 5);
    }
    if (p.w.rank == 0) {
        puts("]");
    }
    free(p.place[A]);
    free(p.place[B]);
    free(p.units);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
