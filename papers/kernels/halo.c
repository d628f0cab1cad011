/* mpicc.openmpi -O2 -fopenmp -o build/halo papers/kernels/halo.c && OMP_NUM_THREADS=4
 * mpirun.openmpi --oversubscribe -n 2 build/halo parallel 256 100 The halo exchange of a
 * two-dimensional stencil by threads, each on communicators of its own or all on one (Zambre et
 * al., 2020, section 6.1): what threads gain where an MPI library gives communicators resources of
 * their own.
 *
 * The nodes are a grid, each with a block of EDGE x EDGE points, cut into blocks for its workers.
 * Workers are the threads of the node's one rank. Those at the edge of the node exchange halos with
 * those of the next node; inside, threads read each other's points in place. In parallel, the
 * exchanges over a border between two rows of nodes have a communicator for each column of threads,
 * and those between columns one for each row of threads. Even borders (between rows 0 and 1, 2 and
 * 3, ...) and odd ones have sets of their own: so threads of a rank share one only where a thread
 * is at both edges. In serial all use one communicator, and tags. In streams the communicators of
 * parallel have a stream each (papers/programs/streams.h), in the place of endpoints. In funneled,
 * thread 0 exchanges for all. In everywhere, with a fourth argument WORKERS, workers are processes
 * with a block each, which exchange all four halos through MPI; the ranks of a node are
 * consecutive.
 *
 * Prints seconds of the slowest rank, those of its exchanges, and a checksum, which is the same in
 * every mode. A barrier precedes each exchange. Columns are packed before and unpacked after it,
 * which does not count as exchange.
 */
#include <omp.h>
#include <stdbool.h>

#include "../programs/streams.h"
#include "kernel.h"

enum { ROWS, COLUMNS, DIRECTIONS, MOST_THREADS = 64 };

struct border {
    int other;        /* rank; MPI_PROC_NULL at the edge of the mesh */
    int set;          /* 0: even, 1: odd */
    double *out, *in; /* [1 + length of the border] */
};

struct grid {
    int nodes[DIRECTIONS];   /* of the mesh */
    int blocks[DIRECTIONS];  /* of a node, each of a rank */
    int workers[DIRECTIONS]; /* of a block, each a thread */
    int length[DIRECTIONS];  /* of this rank's block */
    int place[DIRECTIONS];   /* of this rank's block in the mesh */
    bool parallel, streams, funneled;
    double *now, *next;                  /* [rows + 2][columns + 2] */
    struct border border[DIRECTIONS][2]; /* before and behind */
    MPI_Comm comm[DIRECTIONS][2][MOST_THREADS];
    MPIX_Stream stream[2 * DIRECTIONS * MOST_THREADS];
    int count; /* of streams */
};

/* The part of a thread: rows (or columns) first to end - 1. */
struct part {
    int place[DIRECTIONS];
    int first[DIRECTIONS], end[DIRECTIONS];
};

static double *at(const struct grid *g, double *field, int row, int column) {
    return &field[(size_t)row * (size_t)(g->length[COLUMNS] + 2) + (size_t)column];
}

/* The number of a row or column in the whole mesh. */
static int line(const struct grid *g, int direction, int number) {
    return g->place[direction] * g->length[direction] + number - 1;
}

static struct part part_of(const struct grid *g, int thread) {
    struct part part = {{thread / g->workers[COLUMNS], thread % g->workers[COLUMNS]}, {0}, {0}};

    for (int d = 0; d < DIRECTIONS; d++) {
        part.first[d] = 1 + g->length[d] * part.place[d] / g->workers[d];
        part.end[d] = 1 + g->length[d] * (part.place[d] + 1) / g->workers[d];
    }
    return part;
}

static bool at_edge(const struct grid *g, const struct part *part, int direction, int behind) {
    return part->place[direction] == (behind ? g->workers[direction] - 1 : 0);
}

/* The point of a border, of this block or, in the halo, of the next one. */
static double *point(const struct grid *g, int direction, int behind, bool halo, int along) {
    const int outside = behind ? g->length[direction] + 1 : 0;
    const int across = halo ? outside : behind ? outside - 1 : 1;

    return direction == ROWS ? at(g, g->now, across, along) : at(g, g->now, along, across);
}

/* Copies this thread's part of its borders out of the block, or of the halos into it. */
static void copy(const struct grid *g, const struct part *part, bool halo) {
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int behind = 0; behind < 2; behind++) {
            const struct border *border = &g->border[d][behind];
            if (!at_edge(g, part, d, behind) || border->other == MPI_PROC_NULL) {
                continue;
            }
            for (int i = part->first[!d]; i < part->end[!d]; i++) {
                double *mine = point(g, d, behind, halo, i);
                if (halo) {
                    *mine = border->in[i];
                } else {
                    border->out[i] = *mine;
                }
            }
        }
    }
}

/* Of the borders at which a part lies; the tags tell messages apart that share a communicator. */
static void exchange(const struct grid *g, const struct part *part, bool whole) {
    MPI_Request request[4 * DIRECTIONS];
    int n = 0;

    for (int d = 0; d < DIRECTIONS; d++) {
        for (int behind = 0; behind < 2; behind++) {
            const struct border *border = &g->border[d][behind];
            const int first = whole ? 1 : part->first[!d];
            const int count = whole ? g->length[!d] : part->end[!d] - first;
            const int along = part->place[!d];
            const int tag = (along * DIRECTIONS + d) * 2;
            if (!whole && !at_edge(g, part, d, behind)) {
                continue;
            }
            const MPI_Comm comm = g->parallel ? g->comm[d][border->set][along] : g->comm[0][0][0];
            MPI_Irecv(border->in + first, count, MPI_DOUBLE, border->other, tag + !behind, comm,
                      &request[n++]);
            MPI_Isend(border->out + first, count, MPI_DOUBLE, border->other, tag + behind, comm,
                      &request[n++]);
        }
    }
    MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
}

static void relax(const struct grid *g, const struct part *part) {
    for (int row = part->first[ROWS]; row < part->end[ROWS]; row++) {
        for (int column = part->first[COLUMNS]; column < part->end[COLUMNS]; column++) {
            *at(g, g->next, row, column) =
                0.2 * (*at(g, g->now, row, column) + *at(g, g->now, row - 1, column) +
                       *at(g, g->now, row + 1, column) + *at(g, g->now, row, column - 1) +
                       *at(g, g->now, row, column + 1));
        }
    }
}

/* Returns the seconds of the exchanges. */
static double iterate(struct grid *g, int iterations) {
    double seconds = 0;

#pragma omp parallel num_threads(g->workers[ROWS] * g->workers[COLUMNS])
    {
        const int thread = omp_get_thread_num();
        const struct part part = part_of(g, thread);
        double start = 0;
        for (int i = 0; i < iterations; i++) {
            copy(g, &part, false);
#pragma omp barrier
            if (thread == 0) {
                barrier_with(g->stream, g->count);
                start = MPI_Wtime();
            }
#pragma omp barrier
            if (!g->funneled || thread == 0) {
                exchange(g, &part, g->funneled);
            }
#pragma omp barrier
            if (thread == 0) {
                seconds += MPI_Wtime() - start;
            }
            copy(g, &part, true);
#pragma omp barrier
            relax(g, &part);
#pragma omp barrier
#pragma omp single
            {
                double *field = g->now;
                g->now = g->next;
                g->next = field;
            }
        }
    }
    return seconds;
}

/* The rank of a block; MPI_PROC_NULL outside the mesh. */
static int rank_at(const struct grid *g, const int place[DIRECTIONS]) {
    int node = 0;
    int block = 0;

    for (int d = 0; d < DIRECTIONS; d++) {
        if (place[d] < 0 || place[d] >= g->nodes[d] * g->blocks[d]) {
            return MPI_PROC_NULL;
        }
        node = node * g->nodes[d] + place[d] / g->blocks[d];
        block = block * g->blocks[d] + place[d] % g->blocks[d];
    }
    return node * g->blocks[ROWS] * g->blocks[COLUMNS] + block;
}

/* ranks: of a node. */
static void open_grid(struct grid *g, int edge, int ranks) {
    int rank = 0;
    int size = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kernel_need(size % ranks == 0, "as many ranks on each node");
    MPI_Dims_create(size / ranks, DIRECTIONS, g->nodes);
    MPI_Dims_create(ranks, DIRECTIONS, g->blocks);
    MPI_Dims_create(omp_get_max_threads(), DIRECTIONS, g->workers);
    const int node = rank / ranks;
    const int block = rank % ranks;
    g->place[ROWS] = node / g->nodes[COLUMNS] * g->blocks[ROWS] + block / g->blocks[COLUMNS];
    g->place[COLUMNS] = node % g->nodes[COLUMNS] * g->blocks[COLUMNS] + block % g->blocks[COLUMNS];
    for (int d = 0; d < DIRECTIONS; d++) {
        g->length[d] = edge / g->blocks[d];
        kernel_need(edge % g->blocks[d] == 0 && g->workers[d] <= g->length[d],
                    "an EDGE that the workers of a node can divide");
    }
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int behind = 0; behind < 2; behind++) {
            int place[DIRECTIONS] = {g->place[ROWS], g->place[COLUMNS]};
            place[d] += behind ? 1 : -1;
            g->border[d][behind] =
                (struct border){rank_at(g, place), (g->place[d] + behind + 1) % 2,
                                kernel_allocate((size_t)g->length[!d] + 1),
                                kernel_allocate((size_t)g->length[!d] + 1)};
        }
    }
}

static void open_mesh(struct grid *g) {
    const size_t points = (size_t)(g->length[ROWS] + 2) * (size_t)(g->length[COLUMNS] + 2);

    g->now = calloc(points, sizeof *g->now);
    g->next = calloc(points, sizeof *g->next);
    kernel_need(g->now != NULL && g->next != NULL, "more memory than there is");
    for (int row = 1; row <= g->length[ROWS]; row++) {
        for (int column = 1; column <= g->length[COLUMNS]; column++) {
            *at(g, g->now, row, column) =
                (line(g, ROWS, row) * 17 + line(g, COLUMNS, column) * 7) % 101;
        }
    }
}

static void close_grid(struct grid *g) {
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int behind = 0; behind < 2; behind++) {
            free(g->border[d][behind].out);
            free(g->border[d][behind].in);
        }
    }
    free(g->now);
    free(g->next);
}

static void open_comms(struct grid *g) {
    for (int d = 0; d < (g->parallel ? DIRECTIONS : 1); d++) {
        for (int i = 0; i < (g->parallel ? 2 * g->workers[!d] : 1); i++) {
            MPI_Comm *comm = &g->comm[d][i % 2][i / 2];
            if (g->streams) {
                MPIX_Stream *stream = &g->stream[g->count++];
                MPIX_Stream_create(MPI_INFO_NULL, stream);
                MPIX_Stream_comm_create(MPI_COMM_WORLD, *stream, comm);
            } else {
                MPI_Comm_dup(MPI_COMM_WORLD, comm);
            }
        }
    }
}

static void close_comms(struct grid *g) {
    barrier_with(g->stream, g->count);
    for (int d = 0; d < (g->parallel ? DIRECTIONS : 1); d++) {
        for (int i = 0; i < (g->parallel ? 2 * g->workers[!d] : 1); i++) {
            MPI_Comm_free(&g->comm[d][i % 2][i / 2]);
        }
    }
    for (int i = 0; i < g->count; i++) {
        MPIX_Stream_free(&g->stream[i]);
    }
}

/* Of the bits of all points, in any order. */
static uint64_t checksum(const struct grid *g) {
    uint64_t sum = 0;

    for (int row = 1; row <= g->length[ROWS]; row++) {
        for (int column = 1; column <= g->length[COLUMNS]; column++) {
            uint64_t bits = 0;
            memcpy(&bits, at(g, g->now, row, column), sizeof bits);
            sum += kernel_mix(kernel_mix(bits) + (uint64_t)line(g, ROWS, row) * 1000003 +
                              (uint64_t)line(g, COLUMNS, column));
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int main(int argc, char **argv) {
    static struct grid g;
    int provided = 0;
    int rank = 0;
    const char *mode = argc > 1 ? argv[1] : "serial";
    const bool everywhere = strcmp(mode, "everywhere") == 0;

    g.streams = strcmp(mode, "streams") == 0;
    g.parallel = strcmp(mode, "parallel") == 0 || g.streams;
    g.funneled = strcmp(mode, "funneled") == 0;
    const int wanted = everywhere   ? MPI_THREAD_SINGLE
                       : g.funneled ? MPI_THREAD_FUNNELED
                                    : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int edge = kernel_argument(argc, argv, 2, 256);
    const int iterations = kernel_argument(argc, argv, 3, 500);
    kernel_need(provided >= wanted, "threads that may call MPI");
    kernel_need(omp_get_max_threads() <= (everywhere ? 1 : MOST_THREADS),
                "at most 64 threads, and one everywhere");
    open_grid(&g, edge, everywhere ? kernel_argument(argc, argv, 4, 1) : 1);
    open_mesh(&g);
    open_comms(&g);
    const double start = kernel_start();
    double seconds[2] = {0};
    seconds[1] = iterate(&g, iterations);
    seconds[0] = MPI_Wtime() - start;
    close_comms(&g);
    MPI_Allreduce(MPI_IN_PLACE, seconds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const uint64_t sum = checksum(&g);
    if (rank == 0) {
        printf("halo %s %.6f %.6f %016llx\n", mode, seconds[0], seconds[1],
               (unsigned long long)sum);
    }
    close_grid(&g);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
