/*
 * Do nonblocking collectives overlap with computation? collforge probe overlap. The method of
 * Denis, Jaeger, Jeannot and Reynier (2022), sections 3 to 5. overlap_alone.c starts it.
 *
 *   overlap APART REPETITIONS MOST_BYTES COLLECTIVE,... MICROSECONDS,...
 *   overlap APART REPETITIONS MOST_BYTES COLLECTIVE,... bytes BYTES,...
 *
 * Communication is a nonblocking collective and MPI_Wait. Computation is a matrix product on each
 * OpenMP thread. Of both, the sizes that take each of the times are searched; with BYTES, those of
 * a computation that takes as long as the collective. Then, for every collective and pair, each
 * round measures in turn: the communication alone, the computation alone, and the call, the
 * computation and MPI_Wait, with no MPI_Test in between (overlap_windows.h). Long rounds are fewer
 * than REPETITIONS (search_rounds). APART, 1 or 0: see overlap_place.h.
 *
 * Rank 0 prints lines of JSON (papers/programs/overlap.py): where the threads are; the computation
 * alone, in this process and before it without MPI; and one for each pair.
 */
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overlap_collectives.h"
#include "overlap_compute.h"
#include "overlap_place.h"
#include "overlap_windows.h"
#include "programs/numbers.h"
#include "report.h"

enum { MOST_REPETITIONS = 1000, TIMEOUT = 120, MOST_COLLECTIVES = 16, FIRST_COUNT = 1024 };

/* A size that was searched. */
struct axis {
    double target; /* seconds */
    struct search_found found;
};

/* What is measured of each collective. */
struct wanted {
    int ncollectives;
    const struct collective *collectives[MOST_COLLECTIVES];
    bool sizes; /* the numbers are bytes, else microseconds */
    struct numbers numbers;
    int repetitions;
    size_t most_bytes;
};

static int rank, size;
static struct windows windows;

/* ---- the computation without a running MPI and with it ----------------------------------------
 */

static void write_each(const char *name, const double *values) {
    printf(", \"%s\": [", name);
    for (int i = 0; i < size; i++) {
        printf("%s%.9f", i == 0 ? "" : ", ", values[i]);
    }
    printf("]");
}

/* alone: what overlap_alone.c has found. */
static void measure_impact(const char *alone) {
    int order = 0;
    int products = 0;
    double seconds[2] = {0};
    double *all = xmalloc(2 * (size_t)size * sizeof *all);

    if (sscanf(alone, "%d %d %lf", &order, &products, &seconds[0]) != 3 || order < 1 ||
        products < 1 || products > COMPUTE_MOST_PRODUCTS) {
        fail(EXIT_USAGE, "OVERLAP_ALONE is not of overlap_alone");
    }
    watchdog_step("the computation alone");
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    seconds[1] = compute_median(order, products);
    for (int i = 0; i < 2; i++) {
        must(MPI_Gather(&seconds[i], 1, MPI_DOUBLE, all + (ptrdiff_t)i * size, 1, MPI_DOUBLE, 0,
                        MPI_COMM_WORLD),
             "MPI_Gather");
    }
    if (rank == 0) {
        printf("{\"kind\": \"impact\"");
        write_each("without", all);
        write_each("with", all + size);
        printf("}\n");
    }
    free(all);
}

/* ---- sizes that take the wanted times ---------------------------------------------------------
 */

static void prepare(const struct work *work) {
    if (work->collective != NULL) {
        collective_prepare(work->collective, work->count);
    }
    if (work->order > 0 && !compute_prepare(work->order)) {
        fail(EXIT_TROUBLE, "no memory for matrices of order %d", work->order);
    }
}

struct attempt {
    const struct collective *collective; /* NULL: computation */
    double target;
};

/* A search_cost, equal on all ranks. */
static double cost(long amount, void *context) {
    const struct attempt *attempt = context;
    const bool computes = attempt->collective == NULL;
    const struct work work = {attempt->collective, computes ? 0 : amount,
                              computes ? (int)amount : 0};
    struct times found[SEARCH_TRIES];
    double seconds[SEARCH_TRIES] = {0};

    prepare(&work);
    const int n = windows_run(&windows, &work, 1, search_rounds(attempt->target, SEARCH_TRIES),
                              attempt->target, "the search for a size", found);
    for (int i = 0; rank == 0 && i < n; i++) {
        seconds[i] = computes ? found[i].comp : found[i].total;
    }
    double middle = fmax(search_median(seconds, n), 1e-9);
    must(MPI_Bcast(&middle, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return middle;
}

/* former: that of a shorter time, whose size tells where to begin; NULL for none. */
static long begin(const struct axis *former, double target, double order, long otherwise) {
    if (former == NULL || !former->found.converged) {
        return otherwise;
    }
    return (long)((double)former->found.size * pow(target / former->target, 1 / order));
}

static struct axis search_computation(double target, const struct axis *former) {
    struct attempt attempt = {NULL, target};
    const struct search_goal goal =
        compute_goal(target, begin(former, target, 3, COMPUTE_FIRST_ORDER));
    return (struct axis){target, search_size(&goal, cost, &attempt)};
}

static struct axis search_communication(const struct collective *collective, double target,
                                        const struct axis *former, size_t most_bytes) {
    struct attempt attempt = {collective, target};
    const struct search_goal goal = {.seconds = target,
                                     .tolerance = SEARCH_TOLERANCE,
                                     .order = 1,
                                     .first = begin(former, target, 1, FIRST_COUNT),
                                     .least = 1,
                                     .most = collective_count(collective, most_bytes),
                                     .calls = SEARCH_CALLS};
    return (struct axis){target, search_size(&goal, cost, &attempt)};
}

/* ---- a pair -----------------------------------------------------------------------------------
 */

enum { ALONE, COMPUTES, BOTH, WORKS };

static void write_series(const char *name, const struct times *found, int rounds, int work,
                         size_t member) {
    printf(", \"%s\": [", name);
    for (int r = 0; r < rounds; r++) {
        const char *one = (const char *)&found[r * WORKS + work];
        double seconds = 0;
        memcpy(&seconds, one + member, sizeof seconds);
        printf("%s%.9f", r == 0 ? "" : ", ", seconds);
    }
    printf("]");
}

static void write_pair(const struct collective *collective, const struct axis *comm,
                       const struct axis *comp, const struct times *found, int rounds) {
    printf("{\"kind\": \"pair\", \"collective\": \"%s\"", collective->name);
    printf(", \"comm_target\": %.9f, \"comp_target\": %.9f", comm->target, comp->target);
    printf(", \"bytes\": %zu", collective_bytes(collective, comm->found.size));
    printf(", \"comm_found\": %.9f, \"comp_found\": %.9f", comm->found.seconds,
           comp->found.seconds);
    printf(", \"converged\": %s",
           comm->found.converged && comp->found.converged ? "true" : "false");
    write_series("comm_ref", found, rounds, ALONE, offsetof(struct times, total));
    write_series("comp_ref", found, rounds, COMPUTES, offsetof(struct times, comp));
    write_series("call", found, rounds, BOTH, offsetof(struct times, call));
    write_series("comp", found, rounds, BOTH, offsetof(struct times, comp));
    write_series("wait", found, rounds, BOTH, offsetof(struct times, wait));
    write_series("total", found, rounds, BOTH, offsetof(struct times, total));
    printf("}\n");
    fflush(stdout);
}

static void measure_pair(const struct collective *collective, const struct axis *comm,
                         const struct axis *comp, int repetitions) {
    static struct times found[WORKS * MOST_REPETITIONS];
    const long count = comm->found.size;
    const int order = (int)comp->found.size;
    const struct work works[WORKS] = {
        [ALONE] = {collective, count, 0},
        [COMPUTES] = {NULL, 0, order},
        [BOTH] = {collective, count, order},
    };
    const int rounds = search_rounds(2 * (comm->target + comp->target), repetitions);

    prepare(&works[BOTH]);
    const int kept = windows_run(&windows, works, WORKS, rounds, fmin(comm->target, comp->target),
                                 collective->name, found);
    if (rank == 0) {
        write_pair(collective, comm, comp, found, kept);
    }
}

static void measure_times(const struct wanted *wanted) {
    struct axis comps[MOST_NUMBERS];
    struct axis comms[MOST_NUMBERS];
    const int n = wanted->numbers.count;
    for (int i = 0; i < n; i++) {
        const double target = 1e-6 * wanted->numbers.value[i];
        comps[i] = search_computation(target, i > 0 ? &comps[i - 1] : NULL);
    }
    for (int c = 0; c < wanted->ncollectives; c++) {
        for (int i = 0; i < n; i++) {
            comms[i] = search_communication(wanted->collectives[c], comps[i].target,
                                            i > 0 ? &comms[i - 1] : NULL, wanted->most_bytes);
            for (int j = 0; j < n; j++) {
                measure_pair(wanted->collectives[c], &comms[i], &comps[j], wanted->repetitions);
            }
        }
    }
}

/* As OSU's and Intel's benchmarks: a given size, and a computation that takes as long. */
static void measure_sizes(const struct wanted *wanted) {
    for (int c = 0; c < wanted->ncollectives; c++) {
        struct attempt attempt = {wanted->collectives[c], 1e-3};
        for (int i = 0; i < wanted->numbers.count; i++) {
            const long count =
                collective_count(attempt.collective, (size_t)wanted->numbers.value[i]);
            struct axis comm = {.found = {.size = count, .converged = true}};
            comm.target = comm.found.seconds = attempt.target = cost(count, &attempt);
            const struct axis comp = search_computation(comm.target, NULL);
            measure_pair(attempt.collective, &comm, &comp, wanted->repetitions);
        }
    }
}

/* ---- the program ------------------------------------------------------------------------------
 */

/* Returns false where a name is none. */
static bool read_collectives(const char *text, struct wanted *wanted) {
    while (wanted->ncollectives < MOST_COLLECTIVES) {
        const size_t length = strcspn(text, ",");
        const struct collective *one = collective_find(text, length);
        if (one == NULL) {
            return false;
        }
        wanted->collectives[wanted->ncollectives++] = one;
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
    return false;
}

static bool read_arguments(int argc, char **argv, struct wanted *wanted) {
    if (argc < 6 || argc > 7 || (argc == 7 && strcmp(argv[5], "bytes") != 0)) {
        return false;
    }
    wanted->sizes = argc == 7;
    wanted->numbers = read_numbers(argv[argc - 1], 1);
    wanted->repetitions = (int)strtol(argv[2], NULL, 10);
    wanted->most_bytes = (size_t)strtoull(argv[3], NULL, 10);
    return read_collectives(argv[4], wanted) && wanted->numbers.count > 0 &&
           wanted->repetitions >= 1 && wanted->repetitions <= MOST_REPETITIONS &&
           wanted->most_bytes > 0;
}

int main(int argc, char **argv) {
    struct wanted wanted = {0};
    const char *alone = getenv("OVERLAP_ALONE");
    if (!read_arguments(argc, argv, &wanted) || alone == NULL) {
        return EXIT_USAGE;
    }
    int provided = MPI_THREAD_SINGLE;
    must(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    watchdog_start(rank, TIMEOUT);
    watchdog_step("the start");
    windows_create(&windows);
    const struct place place =
        place_threads(&windows.clock, omp_get_max_threads(), strcmp(argv[1], "1") == 0);
    if (rank == 0) {
        printf("{\"kind\": \"place\", \"spare\": %d, \"started\": %d, \"apart\": %s}\n",
               place.spare, place.started, place.apart ? "true" : "false");
        fflush(stdout);
    }
    measure_impact(alone);
    if (wanted.sizes) {
        measure_sizes(&wanted);
    } else {
        measure_times(&wanted);
    }
    watchdog_step("the end");
    windows_free(&windows);
    compute_free();
    collective_free();
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
