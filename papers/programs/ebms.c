/*
 * Neutrons whose cross-sections lie, in bands of energy, in the memory of several nodes: collforge
 * probe mini-apps --app ebms, after Zambre, Chandramowlishwaran and Balaji (2020), section 6.2.
 *
 *   ebms everywhere|ser_comm|par_comm WORKERS ROUNDS BYTES...
 *
 * Each node owns a band and a share of the particles. In each round every node goes through all
 * bands, beginning with that of the next node. Its WORKERS fetch a portion of BYTES each into one
 * buffer (in memory that the processes of a node share, or the threads), wait for each other, track
 * their particles with the whole band, and wait again. Prints for each size the microseconds of
 * MPI_Get and of MPI_Win_flush of a fetch from another node, the mean over fetches and workers.
 * Fails if a particle meets a wrong cross-section.
 */
#include "one_sided.h"

enum { PARTICLES = 200, LOOKUPS = 20 }; /* of a worker; of a particle with a band */
enum { GET, FLUSH, PARTS };

struct bands {
    struct workers w;
    size_t portion;   /* cross-sections */
    uint64_t *owned;  /* of the own band: this rank's portion, or [workers][portion] */
    uint64_t *buffer; /* [workers][portion], of this node */
    MPI_Comm node_comm;
    MPI_Win shared; /* that the buffer is in; everywhere alone */
};

static uint64_t cross_section(int band, size_t place) {
    return kernel_mix(kernel_mix((uint64_t)band) + place);
}

static size_t owned_portions(const struct bands *b) {
    return b->w.everywhere ? 1 : (size_t)b->w.per_node;
}

static void open_bands(struct bands *b) {
    const size_t all = (size_t)b->w.per_node * b->portion;
    const size_t owned = owned_portions(b) * b->portion;
    const size_t first = b->w.everywhere ? (size_t)worker_of(&b->w) * b->portion : 0;

    b->owned = malloc(owned * sizeof *b->owned);
    kernel_need(b->owned != NULL, "more memory than there is");
    for (size_t i = 0; i < owned; i++) {
        b->owned[i] = cross_section(b->w.node, first + i);
    }
    open_fetches(&b->w, b->owned, owned * sizeof *b->owned);
    if (b->w.everywhere) {
        const MPI_Aint bytes = worker_of(&b->w) == 0 ? (MPI_Aint)(all * sizeof *b->buffer) : 0;
        MPI_Aint size = 0;
        int unit = 0;
        must(MPI_Comm_split(MPI_COMM_WORLD, b->w.node, b->w.rank, &b->node_comm));
        must(MPI_Win_allocate_shared(bytes, sizeof *b->buffer, MPI_INFO_NULL, b->node_comm,
                                     &b->buffer, &b->shared));
        must(MPI_Win_shared_query(b->shared, 0, &size, &unit, &b->buffer));
        must(MPI_Win_lock_all(MPI_MODE_NOCHECK, b->shared));
    } else {
        b->buffer = malloc(all * sizeof *b->buffer);
        kernel_need(b->buffer != NULL, "more memory than there is");
    }
}

static void close_bands(struct bands *b) {
    close_fetches(&b->w);
    free(b->owned);
    if (b->w.everywhere) {
        close_window(&b->shared);
        must(MPI_Comm_free(&b->node_comm));
    } else {
        free(b->buffer);
    }
}

/* Of the workers of a node, with what they have stored in the buffer. */
static void wait_for_node(const struct bands *b) {
    if (b->w.everywhere) {
        must(MPI_Win_sync(b->shared));
        must(MPI_Barrier(b->node_comm));
        must(MPI_Win_sync(b->shared));
    } else {
#pragma omp barrier
    }
}

/* This worker's portion of a band; adds the seconds of the parts. */
static void fetch(const struct bands *b, int band, double *parts) {
    const int worker = worker_of(&b->w);
    const MPI_Win window = fetch_window(&b->w);
    const size_t there = b->w.everywhere ? 0 : (size_t)worker * b->portion;
    const int owner = b->w.everywhere ? band * b->w.per_node + worker : band;
    uint64_t *portion = b->buffer + (size_t)worker * b->portion;

    if (band == b->w.node) {
        memcpy(portion, b->owned + there, b->portion * sizeof *portion);
        return;
    }
    const double begin = MPI_Wtime();
    must(MPI_Get(portion, (int)b->portion, MPI_UINT64_T, owner, (MPI_Aint)there, (int)b->portion,
                 MPI_UINT64_T, window));
    const double issued = MPI_Wtime();
    must(MPI_Win_flush(owner, window));
    parts[GET] += issued - begin;
    parts[FLUSH] += MPI_Wtime() - issued;
}

/* Returns how many lookups found a wrong cross-section. What a particle finds leads it on. */
static int track(const struct bands *b, int band) {
    const size_t all = (size_t)b->w.per_node * b->portion;
    const uint64_t first = (uint64_t)(b->w.node * b->w.per_node + worker_of(&b->w)) * PARTICLES;
    int wrong = 0;

    for (uint64_t particle = first; particle < first + PARTICLES; particle++) {
        uint64_t state = kernel_mix(particle);
        for (int i = 0; i < LOOKUPS; i++) {
            const size_t place = (size_t)(state % all);
            wrong += b->buffer[place] != cross_section(band, place);
            state = kernel_mix(state + b->buffer[place]);
        }
    }
    return wrong;
}

static void measure(struct bands *b, int bytes, int rounds, bool first) {
    static const char *const names[PARTS] = {[GET] = "get", [FLUSH] = "get_flush"};
    double sums[PARTS] = {0};
    int wrong = 0;

    b->portion = (size_t)bytes / sizeof(uint64_t) > 0 ? (size_t)bytes / sizeof(uint64_t) : 1;
    open_bands(b);
    must(MPI_Barrier(MPI_COMM_WORLD));
#pragma omp parallel num_threads(b->w.threads) reduction(+ : sums[ : PARTS], wrong)
    for (int i = 0; i < rounds * b->w.nodes; i++) {
        const int band = (b->w.node + 1 + i) % b->w.nodes;
        fetch(b, band, sums);
        wait_for_node(b);
        wrong += track(b, band);
        wait_for_node(b);
    }
    must(MPI_Barrier(MPI_COMM_WORLD));
    if (wrong > 0) {
        (void)fprintf(stderr, "ebms: wrong data with portions of %d bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    close_bands(b);
    print_parts(&b->w, first, bytes, names, sums, PARTS,
                (double)rounds * (b->w.nodes - 1) * b->w.nodes * b->w.per_node);
}

int main(int argc, char **argv) {
    struct bands b = {0};

    start_workers(&b.w, &argc, &argv);
    kernel_need(b.w.nodes > 1, "two nodes");
    for (int i = 4; i < argc; i++) {
        const int bytes = kernel_argument(argc, argv, i, 8);
        kernel_need(bytes <= MOST_BYTES, "portions of 2 MiB at most");
        measure(&b, bytes, kernel_argument(argc, argv, 3, 100), i == 4);
    }
    if (b.w.rank == 0) {
        puts("]");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
