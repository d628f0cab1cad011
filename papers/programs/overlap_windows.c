#include "overlap_windows.h"

#include <math.h>
#include <stdlib.h>

#include "base/library.h"
#include "overlap_compute.h"
#include "report.h"

/* Of any MPI library with threads of its own: time passes by itself (clock.c asks). */
const struct cf_library cf_library = {.name = "any"};

/* Of a window on a rank, on its own clock: t1 to t4 of the paper (Algorithm 1). */
enum { BEGIN, CALLED, COMPUTED, END, STAMPS };

enum { COMPARISONS = 16, MOST_RETRIES = 4, PATIENCE = 1 };

/* Of the driver (runtime/bench/sample.c). */
static const double min_lead = 100e-6;
static const double max_lead = 5e-3;
static const double min_tolerance = 20e-6;
static const double tolerance_share = 0.05;
static const double most_tolerance_share = 0.25;

struct tolerance {
    double now;
    double calm;
    double most;
    int streak; /* late windows in a row */
};

void windows_create(struct windows *windows) {
    *windows = (struct windows){.lead = 5 * min_lead};
    clock_create(&windows->clock, MPI_COMM_WORLD, false);
}

void windows_free(struct windows *windows) {
    clock_free(&windows->clock);
}

/* The best of several comparisons of the clocks. */
static struct clock_point compare(struct clock *clock) {
    struct clock_point best = {.error = HUGE_VAL};
    const int comparisons = clock->ndomains > 1 ? COMPARISONS : 1;
    for (int i = 0; i < comparisons; i++) {
        clock_compare(clock);
        best = clock->newest.error < best.error ? clock->newest : best;
    }
    return best;
}

static double reference_now(const struct clock *clock) {
    return clock_to_reference(&clock->line, clock_local(clock));
}

static void run(const struct clock *clock, const struct work *work, double *stamps) {
    MPI_Request request = MPI_REQUEST_NULL;
    stamps[BEGIN] = clock_local(clock);
    if (work->collective != NULL) {
        work->collective->start((int)work->count, &request);
    }
    stamps[CALLED] = clock_local(clock);
    if (work->order > 0) {
        compute(work->order);
    }
    stamps[COMPUTED] = clock_local(clock);
    must(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    stamps[END] = clock_local(clock);
}

/* Returns whether all ranks started in time. */
static bool run_window(struct windows *windows, const struct work *work,
                       struct tolerance *tolerance, double *stamps) {
    const struct clock *clock = &windows->clock;
    double start = reference_now(clock);
    must(MPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
         "MPI_Allreduce");
    start += windows->lead;
    const bool lead_too_short = reference_now(clock) > start;
    (void)clock_wait(clock, start);
    run(clock, work, stamps);

    double votes[2] = {clock_to_reference(&clock->line, stamps[BEGIN]) - start, lead_too_short};
    must(MPI_Allreduce(MPI_IN_PLACE, votes, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
         "MPI_Allreduce");
    windows->lead =
        votes[1] > 0 ? fmin(2 * windows->lead, max_lead) : fmax(0.9 * windows->lead, min_lead);
    if (votes[0] <= tolerance->now) {
        tolerance->streak = 0;
        tolerance->now = fmax(0.9 * tolerance->now, tolerance->calm);
        return true;
    }
    windows->late++;
    if (++tolerance->streak > PATIENCE) {
        tolerance->now = fmin(2 * tolerance->now, tolerance->most);
    }
    return false;
}

/* A work that cannot be started in time spoils the round, and the others are not repeated then.
 * stamps: [n][STAMPS] */
static bool run_round(struct windows *windows, const struct work *works, int n,
                      struct tolerance *tolerance, double *stamps) {
    bool all_in_time = true;
    for (int i = 0; i < n; i++) {
        bool in_time = false;
        for (int tries = 0; !in_time && tries <= (all_in_time ? MOST_RETRIES : 0); tries++) {
            in_time = run_window(windows, &works[i], tolerance, &stamps[i * STAMPS]);
        }
        all_in_time = all_in_time && in_time;
    }
    return all_in_time;
}

/* stamps: of all ranks, the first one's followed by the next one's `stride` doubles behind */
static struct times evaluate(const double *stamps, int size, size_t stride) {
    struct times times = {0};
    double first = stamps[BEGIN];
    double last = stamps[END];
    for (int rank = 0; rank < size; rank++, stamps += stride) {
        const double call = stamps[CALLED] - stamps[BEGIN];
        const double wait = stamps[END] - stamps[COMPUTED];
        first = fmin(first, stamps[BEGIN]);
        last = fmax(last, stamps[END]);
        times.comp = fmax(times.comp, stamps[COMPUTED] - stamps[CALLED]);
        if (call + wait >= times.call + times.wait) {
            times.call = call;
            times.wait = wait;
        }
    }
    times.total = last - first;
    return times;
}

/* stamps: [n][STAMPS] of this rank, on the common clock */
static void gather(const double *stamps, int n, struct times *found) {
    int rank = 0;
    int size = 0;
    double *all = NULL;
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    if (rank == 0) {
        all = xmalloc((size_t)size * (size_t)n * STAMPS * sizeof *all);
    }
    must(MPI_Gather(stamps, n * STAMPS, MPI_DOUBLE, all, n * STAMPS, MPI_DOUBLE, 0, MPI_COMM_WORLD),
         "MPI_Gather");
    for (int i = 0; rank == 0 && i < n; i++) {
        found[i] = evaluate(all + (ptrdiff_t)i * STAMPS, size, (size_t)n * STAMPS);
    }
    free(all);
}

int windows_run(struct windows *windows, const struct work *works, int n, int rounds,
                double shortest, const char *name, struct times *found) {
    struct tolerance tolerance = {.calm = fmax(min_tolerance, tolerance_share * shortest),
                                  .most = fmax(min_tolerance, most_tolerance_share * shortest)};
    double *stamps = xmalloc((size_t)rounds * (size_t)n * STAMPS * sizeof *stamps);
    int kept = 0;

    watchdog_step(name);
    tolerance.now = tolerance.calm;
    const struct clock_point before = compare(&windows->clock);
    (void)run_round(windows, works, n, &tolerance, stamps);
    for (int left = 2 * rounds + 2; kept < rounds && left > 0; left--) {
        watchdog_step(name);
        double *mine = stamps + (ptrdiff_t)kept * n * STAMPS;
        if (run_round(windows, works, n, &tolerance, mine) || (kept == 0 && left == 1)) {
            kept++;
        }
    }
    const struct clock_point after = compare(&windows->clock);
    const struct clock_line line = clock_interpolation(&before, &after);
    for (int i = 0; i < kept * n * STAMPS; i++) {
        stamps[i] = clock_to_reference(&line, stamps[i]);
    }
    gather(stamps, kept * n, found);
    free(stamps);
    return kept;
}
