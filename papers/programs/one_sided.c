/*
 * The communication of two programs whose workers, threads or processes, fetch data from each
 * other: collforge probe one-sided, after Zambre, Chandramowlishwaran and Balaji (2020), sections
 * 6.2 (EBMS) and 6.3 (BSPMM).
 *
 *   one_sided everywhere|ser_comm|par_comm ebms|bspmm THREADS ROUNDS BYTES...
 *
 * Every worker owns a tile of BYTES. In each round it fetches the tile of the worker with its
 * number on the other node (ebms), or that and another one, multiplies them as matrices, and adds
 * the product to the second one's owner's totals (bspmm). A round of ebms ends with a barrier of
 * the node's threads. Threads have one window (ser_comm) or fetch over one each (par_comm). All add
 * over the same window, because MPI's accumulates are not atomic across windows. Prints for each
 * size the microseconds of each part, the mean over rounds and workers, and fails if the sums are
 * wrong.
 */
#include <math.h>
#include <mpi.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, MOST_BYTES = 1 << 21 };
enum { GET, GET_FLUSH, ADD, ADD_FLUSH, PARTS };

static const char *const part_names[PARTS] = {
    [GET] = "get", [GET_FLUSH] = "get_flush", [ADD] = "add", [ADD_FLUSH] = "add_flush"};

static void must(int err) {
    if (err != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

struct program {
    bool multiplies; /* bspmm */
    bool own;        /* each thread fetches over its own window */
    int threads, rounds;
    int rank, size;
    int edge;       /* of a tile, in doubles */
    double *tiles;  /* [threads][edge * edge], all ones */
    double *totals; /* [threads][edge * edge], to which products are added */
    MPI_Win window[MOST_THREADS];
    MPI_Win sums;
};

static int doubles(const struct program *p) {
    return p->edge * p->edge;
}

static double *allocate(int count) {
    double *data = malloc((size_t)count * sizeof *data);
    if (data == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return data;
}

/* The window for fetches of a thread. */
static MPI_Win fetches(const struct program *p, int thread) {
    return p->window[p->own ? thread : 0];
}

static void open_window(const struct program *p, double *memory, MPI_Info info, MPI_Win *window) {
    const MPI_Aint bytes = (MPI_Aint)sizeof(double) * doubles(p) * p->threads;

    must(MPI_Win_create(memory, bytes, sizeof(double), info, MPI_COMM_WORLD, window));
    must(MPI_Win_lock_all(MPI_MODE_NOCHECK, *window));
}

static void close_window(MPI_Win *window) {
    must(MPI_Win_unlock_all(*window));
    must(MPI_Win_free(window));
}

static void open_windows(struct program *p) {
    const int all = doubles(p) * p->threads;
    MPI_Info unordered = MPI_INFO_NULL;

    p->tiles = allocate(all);
    p->totals = allocate(all);
    for (int i = 0; i < all; i++) {
        p->tiles[i] = 1;
        p->totals[i] = 0;
    }
    must(MPI_Info_create(&unordered));
    must(MPI_Info_set(unordered, "accumulate_ordering", "none"));
    for (int i = 0; i < (p->own ? p->threads : 1); i++) {
        open_window(p, p->tiles, MPI_INFO_NULL, &p->window[i]);
    }
    open_window(p, p->totals, unordered, &p->sums);
    must(MPI_Info_free(&unordered));
}

static void close_windows(struct program *p) {
    for (int i = 0; i < (p->own ? p->threads : 1); i++) {
        close_window(&p->window[i]);
    }
    close_window(&p->sums);
    free(p->tiles);
    free(p->totals);
}

static void multiply(const struct program *p, const double *a, const double *b, double *product) {
    const int n = p->edge;

    memset(product, 0, (size_t)doubles(p) * sizeof *product);
    for (int row = 0; row < n; row++) {
        for (int k = 0; k < n; k++) {
            for (int column = 0; column < n; column++) {
                product[row * n + column] += a[row * n + k] * b[k * n + column];
            }
        }
    }
}

/* One round of a worker; adds the seconds of each part. data: [3][edge * edge]. */
static void run_round(const struct program *p, int thread, int round, double *data, double *parts) {
    const MPI_Win window = fetches(p, thread);
    const MPI_Aint tile = (MPI_Aint)thread * doubles(p);
    const int half = p->size / 2; /* the ranks of a node */
    const int partner = (p->rank + half) % p->size;
    const int third = p->multiplies ? (p->rank + 1 + round) % p->size : partner;
    double now = MPI_Wtime();
    double before = now;

    must(MPI_Get(data, doubles(p), MPI_DOUBLE, partner, tile, doubles(p), MPI_DOUBLE, window));
    if (p->multiplies) {
        must(MPI_Get(data + doubles(p), doubles(p), MPI_DOUBLE, third, tile, doubles(p), MPI_DOUBLE,
                     window));
    }
    parts[GET] += (now = MPI_Wtime()) - before;
    must(MPI_Win_flush(partner, window));
    if (third != partner) {
        must(MPI_Win_flush(third, window));
    }
    parts[GET_FLUSH] += (before = MPI_Wtime()) - now;
    if (!p->multiplies) {
        return;
    }
    double *product = data + (size_t)2 * (size_t)doubles(p);
    multiply(p, data, data + doubles(p), product);
    before = MPI_Wtime();
    must(MPI_Accumulate(product, doubles(p), MPI_DOUBLE, third, tile, doubles(p), MPI_DOUBLE,
                        MPI_SUM, p->sums));
    parts[ADD] += (now = MPI_Wtime()) - before;
    must(MPI_Win_flush(third, p->sums));
    parts[ADD_FLUSH] += MPI_Wtime() - now;
}

/* The seconds of each part, added over rounds and the threads of this rank. */
static void run_rounds(const struct program *p, double *parts) {
    double sum[PARTS] = {0};

    must(MPI_Barrier(MPI_COMM_WORLD));
#pragma omp parallel num_threads(p->threads) reduction(+ : sum[ : PARTS])
    {
        double *data = allocate(3 * doubles(p));
        for (int round = 0; round < p->rounds; round++) {
            run_round(p, omp_get_thread_num(), round, data, sum);
            if (!p->multiplies) {
#pragma omp barrier
            }
        }
        free(data);
    }
    must(MPI_Barrier(MPI_COMM_WORLD));
    must(MPI_Allreduce(sum, parts, PARTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
}

/* Every product is `edge` everywhere, and every worker adds one in each round. */
static bool is_right(const struct program *p) {
    double sums[2] = {0, (double)p->threads * p->rounds * p->edge * doubles(p)};

    must(MPI_Win_sync(p->sums));
    for (int i = 0; i < doubles(p) * p->threads; i++) {
        sums[0] += p->totals[i];
    }
    must(MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    return !p->multiplies || sums[0] == sums[1];
}

static void measure(struct program *p, int bytes, bool first) {
    double parts[PARTS] = {0};

    p->edge = (int)sqrt((double)bytes / sizeof(double));
    if (p->edge < 1) {
        p->edge = 1;
    }
    open_windows(p);
    run_rounds(p, parts);
    if (!is_right(p)) {
        (void)fprintf(stderr, "one_sided: wrong sums with tiles of %d bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    close_windows(p);
    if (p->rank != 0) {
        return;
    }
    printf("%s{\"bytes\": %d", first ? "[" : ", ", bytes);
    for (int part = GET; part < (p->multiplies ? PARTS : ADD); part++) {
        printf(", \"%s\": %.6g", part_names[part],
               parts[part] * 1e6 / p->rounds / p->threads / p->size);
    }
    printf("}");
}

int main(int argc, char **argv) {
    struct program p = {0};
    int provided = MPI_THREAD_SINGLE;
    const bool threads = argc > 1 && strcmp(argv[1], "everywhere") != 0;

    must(MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                         &provided));
    must(MPI_Comm_rank(MPI_COMM_WORLD, &p.rank));
    must(MPI_Comm_size(MPI_COMM_WORLD, &p.size));
    if (argc < 6 || (threads && provided < MPI_THREAD_MULTIPLE) || p.size % 2 != 0) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    p.own = strcmp(argv[1], "par_comm") == 0;
    p.multiplies = strcmp(argv[2], "bspmm") == 0;
    p.threads = threads ? atoi(argv[3]) : 1;
    p.rounds = atoi(argv[4]);
    if (p.threads < 1 || p.threads > MOST_THREADS || p.rounds < 1) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 5; i < argc; i++) {
        const int bytes = atoi(argv[i]);
        if (bytes < 0 || bytes > MOST_BYTES) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        measure(&p, bytes, i == 5);
    }
    if (p.rank == 0) {
        puts("]");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
