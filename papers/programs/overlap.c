/*
 * Do nonblocking collectives overlap with computation? collforge probe overlap. The method of
 * Denis, Jaeger, Jeannot and Reynier (2022), sections 3 to 5.
 *
 *   overlap OUTPUT REPETITIONS MOST_BYTES COLLECTIVE,... MICROSECONDS,...
 *
 * Communication is a nonblocking collective and MPI_Wait. Computation is a matrix product on each
 * OpenMP thread. Of both, the sizes that take each of the times are searched. Then, for every
 * collective and pair of times, each repetition measures in turn: the communication alone, the
 * computation alone, and the call, the computation and MPI_Wait, with no MPI_Test in between. Every
 * one starts on all ranks at one time of the common clock (clock.h), and has ended when the last
 * rank has: max(end) - min(start). The first repetitions are not counted.
 *
 * OUTPUT gets lines of JSON (papers/programs/overlap.py): one for each pair, and first the same
 * computation before and after MPI_Init.
 */
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "overlap_compute.h"
#include "overlap_search.h"
#include "programs/numbers.h"
#include "report.h"

enum { WARM_UP = 1, MOST_REPETITIONS = 1000, TRIES = 5, CALLS = 24, TIMEOUT = 120 };

static const double tolerance = 0.1;

/* The times of one run on a rank: t1 to t4 of the paper, on the common clock. */
enum { BEGIN, CALLED, COMPUTED, END, STAMPS };

/* One run, by all ranks. */
struct run {
    double total;
    double call; /* this and wait: of the rank with the longest call + wait */
    double wait;
    double comp; /* of the slowest rank */
};

struct collective {
    const char *name;
    void (*start)(int count, MPI_Request *request);
    bool blocks; /* a buffer has a block of each rank */
};

/* A size that was searched. */
struct axis {
    int target; /* microseconds */
    struct search_found found;
};

static int rank, size, repetitions;
static long most_bytes;
static struct clock ticks;
static double lead = 500e-6; /* seconds from the agreement on a start to the start */
static double *sent, *received;
static size_t held;              /* elements of each of both */
static double (*stamps)[STAMPS]; /* rank 0: [size] */
static const char *const series[] = {"comm_ref", "comp_ref", "call", "comp", "wait", "total"};
enum { SERIES = sizeof series / sizeof *series };
static double samples[SERIES][MOST_REPETITIONS]; /* rank 0: seconds */

/* ---- the collectives ------------------------------------------------------------------------- */

static void start_bcast(int count, MPI_Request *request) {
    must(MPI_Ibcast(received, count, MPI_DOUBLE, 0, MPI_COMM_WORLD, request), "MPI_Ibcast");
}

static void start_reduce(int count, MPI_Request *request) {
    must(MPI_Ireduce(sent, received, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD, request),
         "MPI_Ireduce");
}

static void start_allgather(int count, MPI_Request *request) {
    must(MPI_Iallgather(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD,
                        request),
         "MPI_Iallgather");
}

static void start_alltoall(int count, MPI_Request *request) {
    must(MPI_Ialltoall(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD,
                       request),
         "MPI_Ialltoall");
}

static void start_allreduce(int count, MPI_Request *request) {
    must(MPI_Iallreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request),
         "MPI_Iallreduce");
}

static const struct collective collectives[] = {
    {"bcast", start_bcast, false},         {"reduce", start_reduce, false},
    {"allgather", start_allgather, true},  {"alltoall", start_alltoall, true},
    {"allreduce", start_allreduce, false},
};

/* Elements of a buffer on any rank. */
static size_t elements(const struct collective *collective, long count) {
    return (size_t)count * (collective->blocks ? (size_t)size : 1);
}

/* Pages are written before they are timed, and hold numbers that sums leave normal. */
static void hold(size_t wanted) {
    if (wanted <= held) {
        return;
    }
    sent = xrealloc(sent, wanted * sizeof *sent);
    received = xrealloc(received, wanted * sizeof *received);
    for (size_t i = 0; i < wanted; i++) {
        sent[i] = received[i] = 1;
    }
    held = wanted;
}

/* ---- one run --------------------------------------------------------------------------------- */

static double global_now(void) {
    return clock_to_reference(&ticks.line, clock_local(&ticks));
}

/* All ranks leave at one time, if the agreement reached them before it. Returns whether it did. */
static bool start_together(void) {
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    double start = global_now() + lead;
    must(MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    const bool in_time = global_now() < start;
    clock_wait(&ticks, start);
    return in_time;
}

/* On rank 0; on the others the result has no meaning. */
static struct run evaluate(void) {
    struct run run = {0};
    double first = stamps[0][BEGIN];
    double last = stamps[0][END];
    for (int r = 0; r < size; r++) {
        const double *t = stamps[r];
        const double call = t[CALLED] - t[BEGIN];
        const double wait = t[END] - t[COMPUTED];
        first = fmin(first, t[BEGIN]);
        last = fmax(last, t[END]);
        run.comp = fmax(run.comp, t[COMPUTED] - t[CALLED]);
        if (call + wait >= run.call + run.wait) {
            run.call = call;
            run.wait = wait;
        }
    }
    run.total = last - first;
    return run;
}

/* collective NULL: only computation. order 0: only communication. The result is on rank 0. */
static struct run measure(const struct collective *collective, long count, int order) {
    MPI_Request request = MPI_REQUEST_NULL;
    double t[STAMPS];
    int in_time = start_together();

    t[BEGIN] = global_now();
    if (collective != NULL) {
        collective->start((int)count, &request);
    }
    t[CALLED] = global_now();
    if (order > 0) {
        compute(order);
    }
    t[COMPUTED] = global_now();
    must(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    t[END] = global_now();
    must(MPI_Allreduce(MPI_IN_PLACE, &in_time, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
         "MPI_Allreduce");
    if (!in_time) {
        lead = fmin(2 * lead, 0.1);
    }
    must(MPI_Gather(t, STAMPS, MPI_DOUBLE, stamps, STAMPS, MPI_DOUBLE, 0, MPI_COMM_WORLD),
         "MPI_Gather");
    return rank == 0 ? evaluate() : (struct run){0};
}

/* ---- sizes that take the wanted times -------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void prepare(int order) {
    if (!compute_prepare(order)) {
        fail(EXIT_TROUBLE, "no memory for matrices of order %d", order);
    }
}

/* A search_cost, equal on all ranks; context: the collective, NULL for computation. */
static double cost(long amount, void *context) {
    const struct collective *collective = context;
    double seconds[TRIES];

    if (collective != NULL) {
        hold(elements(collective, amount));
    } else {
        prepare((int)amount);
    }
    for (int i = -1; i < TRIES; i++) {
        watchdog_step(collective != NULL ? "the search for a message size" : "that for an order");
        const struct run run = measure(collective, amount, collective != NULL ? 0 : (int)amount);
        if (i >= 0) {
            seconds[i] = collective != NULL ? run.total : run.comp;
        }
    }
    double found = fmax(median(seconds, TRIES), 1e-9);
    must(MPI_Bcast(&found, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return found;
}

static struct axis search_communication(const struct collective *collective, int target) {
    const long most = most_bytes / (long)sizeof(double) / (collective->blocks ? size : 1);
    const struct search_goal goal = {.seconds = 1e-6 * target,
                                     .tolerance = tolerance,
                                     .order = 1,
                                     .first = 1024,
                                     .least = 1,
                                     .most = most < 1         ? 1
                                             : most > INT_MAX ? INT_MAX
                                                              : most,
                                     .calls = CALLS};
    return (struct axis){target, search_size(&goal, cost, (void *)collective)};
}

static struct search_goal computation(int target) {
    return (struct search_goal){.seconds = 1e-6 * target,
                                .tolerance = tolerance,
                                .order = 3,
                                .first = 64,
                                .least = 2,
                                .most = COMPUTE_MOST_ORDER,
                                .calls = CALLS};
}

/* ---- the computation with and without a running MPI ------------------------------------------ */

/* A search_cost of this rank alone, which needs no MPI. */
static double own_cost(long order, void *context) {
    double seconds[TRIES];
    (void)context;
    if (!compute_prepare((int)order)) {
        exit(EXIT_TROUBLE);
    }
    (void)compute_seconds((int)order);
    for (int i = 0; i < TRIES; i++) {
        seconds[i] = compute_seconds((int)order);
    }
    return fmax(median(seconds, TRIES), 1e-9);
}

static void repeat_alone(int order, double *seconds) {
    for (int r = -WARM_UP; r < repetitions; r++) {
        watchdog_step("the computation alone"); /* does nothing before watchdog_start */
        const double one = compute_seconds(order);
        if (r >= 0) {
            seconds[r] = one;
        }
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static void write_samples(FILE *out, const char *name, const double *seconds) {
    fprintf(out, ", \"%s\": [", name);
    for (int r = 0; r < repetitions; r++) {
        fprintf(out, "%s%.9f", r == 0 ? "" : ", ", seconds[r]);
    }
    fputs("]", out);
}

static void write_impact(FILE *out, int target, double *before, double *after) {
    double *const both[] = {before, after};
    for (int i = 0; i < 2; i++) {
        must(MPI_Reduce(rank == 0 ? MPI_IN_PLACE : both[i], both[i], repetitions, MPI_DOUBLE,
                        MPI_MAX, 0, MPI_COMM_WORLD),
             "MPI_Reduce");
    }
    if (rank != 0) {
        return;
    }
    fprintf(out, "{\"kind\": \"impact\", \"target\": %.6f", 1e-6 * target);
    write_samples(out, "before", before);
    write_samples(out, "after", after);
    fputs("}\n", out);
}

static void write_pair(FILE *out, const struct collective *collective, const struct axis *comm,
                       const struct axis *comp) {
    const size_t bytes = elements(collective, comm->found.size) * sizeof(double);
    fprintf(out, "{\"kind\": \"pair\", \"collective\": \"%s\"", collective->name);
    fprintf(out, ", \"comm_target\": %.6f, \"comp_target\": %.6f", 1e-6 * comm->target,
            1e-6 * comp->target);
    fprintf(out, ", \"bytes\": %zu, \"order\": %ld", bytes, comp->found.size);
    fprintf(out, ", \"comm_found\": %.9f, \"comp_found\": %.9f", comm->found.seconds,
            comp->found.seconds);
    fprintf(out, ", \"comm_converged\": %s, \"comp_converged\": %s",
            comm->found.converged ? "true" : "false", comp->found.converged ? "true" : "false");
    for (int i = 0; i < SERIES; i++) {
        write_samples(out, series[i], samples[i]);
    }
    fputs("}\n", out);
    fflush(out);
}

static void measure_pair(FILE *out, const struct collective *collective, const struct axis *comm,
                         const struct axis *comp) {
    const long count = comm->found.size;
    const int order = (int)comp->found.size;

    hold(elements(collective, count));
    prepare(order);
    clock_compare(&ticks);
    for (int r = -WARM_UP; r < repetitions; r++) {
        watchdog_step(collective->name);
        const struct run comm_alone = measure(collective, count, 0);
        const struct run comp_alone = measure(NULL, 0, order);
        const struct run both = measure(collective, count, order);
        const double found[SERIES] = {comm_alone.total, comp_alone.comp, both.call,
                                      both.comp,        both.wait,       both.total};
        for (int i = 0; r >= 0 && i < SERIES; i++) {
            samples[i][r] = found[i];
        }
    }
    if (rank == 0) {
        write_pair(out, collective, comm, comp);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Indices into `collectives`; count is 0 where a name is none. */
static struct numbers read_collectives(const char *text) {
    struct numbers numbers = {0};
    const int known = (int)(sizeof collectives / sizeof *collectives);
    while (numbers.count < MOST_NUMBERS) {
        const size_t length = strcspn(text, ",");
        int i = 0;
        while (i < known && (strlen(collectives[i].name) != length ||
                             strncmp(text, collectives[i].name, length) != 0)) {
            i++;
        }
        if (i == known) {
            return (struct numbers){0};
        }
        numbers.value[numbers.count++] = i;
        if (text[length] == '\0') {
            return numbers;
        }
        text += length + 1;
    }
    return (struct numbers){0};
}

static void measure_all(FILE *out, const struct numbers *which, const struct numbers *times) {
    struct axis comps[MOST_NUMBERS];
    for (int i = 0; i < times->count; i++) {
        const struct search_goal goal = computation(times->value[i]);
        comps[i] = (struct axis){times->value[i], search_size(&goal, cost, NULL)};
    }
    for (int c = 0; c < which->count; c++) {
        const struct collective *collective = &collectives[which->value[c]];
        for (int i = 0; i < times->count; i++) {
            const struct axis comm = search_communication(collective, times->value[i]);
            for (int j = 0; j < times->count; j++) {
                measure_pair(out, collective, &comm, &comps[j]);
            }
        }
    }
}

int main(int argc, char **argv) {
    static double before[MOST_REPETITIONS], after[MOST_REPETITIONS];
    if (argc != 6) {
        return EXIT_USAGE;
    }
    repetitions = (int)strtol(argv[2], NULL, 10);
    most_bytes = strtol(argv[3], NULL, 10);
    const struct numbers which = read_collectives(argv[4]);
    const struct numbers times = read_numbers(argv[5], 1);
    if (repetitions < 1 || repetitions > MOST_REPETITIONS || most_bytes < 1 || which.count == 0 ||
        times.count == 0) {
        return EXIT_USAGE;
    }

    const int longest = largest(&times);
    const struct search_goal goal = computation(longest);
    const int order = (int)search_size(&goal, own_cost, NULL).size;
    if (!compute_prepare(order)) {
        return EXIT_TROUBLE;
    }
    repeat_alone(order, before);

    int provided = MPI_THREAD_SINGLE;
    must(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    watchdog_start(rank, TIMEOUT);
    watchdog_step("the start");
    FILE *out = rank == 0 ? fopen(argv[1], "w") : NULL;
    if (rank == 0 && out == NULL) {
        fail(EXIT_TROUBLE, "cannot write %s", argv[1]);
    }
    stamps = xmalloc((size_t)size * sizeof *stamps);
    clock_create(&ticks, MPI_COMM_WORLD, false);
    must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    repeat_alone(order, after);
    write_impact(out, longest, before, after);
    measure_all(out, &which, &times);
    watchdog_step("the end");
    if (out != NULL && fclose(out) != 0) {
        fail(EXIT_TROUBLE, "cannot write %s", argv[1]);
    }
    clock_free(&ticks);
    compute_free();
    free(sent);
    free(received);
    free(stamps);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
