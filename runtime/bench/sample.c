/*
 * Timing. One round runs every candidate of the group, native among them, once. Sample i of each
 * candidate comes from round i, so that ratios hold when the machine drifts. The order is shuffled
 * by the seed and rotates from round to round. With --prune, a candidate that is clearly behind the
 * best one after a few rounds leaves. It keeps its samples, which are those of the first rounds of
 * all others.
 *
 * A timing window: all ranks agree on a time in the near future (the lead), wait for it, call, and
 * note when the call returned. The time of the window is max(end) - min(start) over the ranks, on
 * one clock. A window that some rank enters later than the tolerance is discarded, counted as late
 * and repeated at once, so that the candidates of a round are still timed side by side. The next
 * lead doubles if a rank was still agreeing at the start. For a rank that lost its core a longer
 * lead is no help. From the second consecutive late window on, the tolerance doubles, up to a share
 * of the shortest candidate's time. So a machine with more ranks than cores gets samples, too; each
 * record says how late its start was. After MAX_RETRIES the whole round is discarded for all
 * candidates, and the limit of the tolerance doubles. After 3 x samples + 10 rounds sampling ends,
 * even with too few samples.
 *
 * Calls so short that the error of the start matters are repeated, equally often for every
 * candidate:
 * - In allreduce, alltoall and others, every rank's result depends on every rank's input (the
 *   oracle tells), so no rank can be more than one call ahead. Such calls run back to back in one
 *   timing window. The sample is the window's time divided by their number. (--in-a-row asks for
 *   this with longer calls, too, as in OSU's and Intel's benchmarks: a call then begins while other
 *   ranks are still in the one before.)
 * - In bcast, gather, scan and others, consecutive calls would overlap, and the root's throughput
 *   would be taken for the collective's time. Each call has a timing window of its own, and the
 *   sample is the median of the windows. So it is for in-place calls, whose input must be restored
 *   before each call. Other buffers of short calls are not (docs/design/measuring.md).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "bench.h"
#include "oracle.h"
#include "report.h"

static const double short_call = 50e-6;   /* shorter calls are repeated ... */
static const double long_sample = 100e-6; /* ... for about this time in total */
static const double long_call = 10e-3;
/* MIN_ROUNDS also after the time limit: the tuner's statistics need launches more than samples. */
enum { MIN_ROUNDS = 2, MAX_REPEATS = 32, MAX_RETRIES = 8, PATIENCE = 1 };
/* A candidate leaves after this many rounds if its median is above the best median by more than
 * prune_lag and none of its samples is as fast as that. Long calls scatter less, so those far
 * behind leave after one round. */
enum { PRUNE_ROUNDS = 3 };
static const double prune_lag = 0.15;
static const double prune_lag_of_long = 0.5;

static const double min_lead = 100e-6; /* from the agreement to the start */
static const double max_lead = 5e-3;
static const double min_tolerance = 20e-6;
static const double tolerance_share = 0.05; /* of the shortest candidate's time */
static const double most_tolerance_share = 0.25;

struct stamp {
    double start;
    double end;
    double lateness; /* of the last rank's start, equal on all ranks */
};

struct schedule {
    struct candidate **active; /* [nactive] in the order of round 0 */
    int *rounds;               /* [nactive] rounds in which each candidate took part */
    bool *left;                /* [nactive] pruned */
    int nactive;
    int windows; /* timing windows per sample */
    int burst;   /* calls per timing window */
    double lead;
    double tolerance;      /* current */
    double calm_tolerance; /* when no rank is late */
    double most_tolerance;
    double start_error; /* of the latest accepted start */
    int late;
    int streak;    /* consecutive late windows */
    bool restores; /* the buffers, before each window */
};

/* ---- one round ------------------------------------------------------------------------------ */

static void adapt(struct schedule *schedule, double lateness, bool lead_too_short) {
    schedule->lead =
        lead_too_short ? fmin(2 * schedule->lead, max_lead) : fmax(0.9 * schedule->lead, min_lead);
    if (lateness > schedule->tolerance) {
        schedule->late++;
        if (++schedule->streak > PATIENCE) {
            schedule->tolerance = fmin(2 * schedule->tolerance, schedule->most_tolerance);
        }
    } else {
        schedule->streak = 0;
        schedule->start_error = fmax(schedule->start_error, lateness);
        schedule->tolerance = fmax(0.9 * schedule->tolerance, schedule->calm_tolerance);
    }
}

/* The result of a timing window, equal on all ranks. */
struct verdict {
    bool late;
    bool time_is_up; /* of the group; rank 0 decides */
};

static struct verdict run_window(struct bench *bench, struct schedule *schedule,
                                 struct candidate *candidate, struct stamp *stamp) {
    const struct clock *clock = &bench->clock;
    const double limit = bench->options.max_seconds;
    int err = MPI_SUCCESS;

    if (schedule->restores || !data_survives(&bench->data)) {
        reset_for(bench, candidate);
    }
    watchdog_step(candidate->text);
    double start = clock_to_reference(&clock->line, clock_local(clock));
    must(PMPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, bench->comm),
         "MPI_Allreduce");
    start += schedule->lead;
    const bool lead_too_short = clock_to_reference(&clock->line, clock_local(clock)) > start;
    stamp->start = clock_wait(clock, start);
    for (int i = 0; i < schedule->burst && err == MPI_SUCCESS; i++) {
        err = call_candidate(bench, candidate);
    }
    stamp->end = clock_local(clock);
    check_candidate(bench, candidate, err);

    const double spent = clock_local(clock) - bench->group_start;
    double votes[3] = {clock_to_reference(&clock->line, stamp->start) - start,
                       bench->rank == 0 && limit > 0 && spent > limit, lead_too_short};
    must(PMPI_Allreduce(MPI_IN_PLACE, votes, 3, MPI_DOUBLE, MPI_MAX, bench->comm), "MPI_Allreduce");
    stamp->lateness = fmax(votes[0], 0);
    const struct verdict verdict = {votes[0] > schedule->tolerance, votes[1] > 0};
    adapt(schedule, votes[0], votes[2] > 0);
    return verdict;
}

/* Runs round `number` with the remaining candidates. stamps: [nactive * windows]. Returns the
 * verdict on the last window: if that is late, the round must be discarded. */
static struct verdict run_round(struct bench *bench, struct schedule *schedule, int number,
                                struct stamp *stamps) {
    struct verdict verdict = {false, false};

    for (int i = 0; i < schedule->nactive * schedule->windows && !verdict.late; i++) {
        const int who = (i / schedule->windows + number) % schedule->nactive;
        if (schedule->left[who]) {
            continue;
        }
        struct stamp *stamp = &stamps[who * schedule->windows + i % schedule->windows];
        int tries = 0;
        do {
            verdict = run_window(bench, schedule, schedule->active[who], stamp);
        } while (verdict.late && tries++ < MAX_RETRIES);
    }
    return verdict;
}

/* ---- from stamps to seconds ------------------------------------------------------------------ */

/* Sets seconds: [n], the time of each timing window, max(end) - min(start) over the ranks.
 * Collective. */
static void measure(const struct bench *bench, const struct clock_line *line,
                    const struct stamp *stamps, int n, double *seconds) {
    double *edges = xmalloc(2 * (size_t)n * sizeof *edges);

    for (int i = 0; i < n; i++) {
        edges[2 * i] = clock_to_reference(line, stamps[i].end);
        edges[2 * i + 1] = -clock_to_reference(line, stamps[i].start);
    }
    must(PMPI_Allreduce(MPI_IN_PLACE, edges, 2 * n, MPI_DOUBLE, MPI_MAX, bench->comm),
         "MPI_Allreduce");
    for (int i = 0; i < n; i++) {
        seconds[i] = edges[2 * i] + edges[2 * i + 1];
    }
    free(edges);
}

/* Whether every rank's result depends on every rank's input. */
static bool is_synchronising(const struct problem *problem, int size) {
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    bool *seen = xmalloc((size_t)size * sizeof *seen);
    bool all = oracle->moves_nothing || (problem->count > 0 && !problem->uneven);

    for (int rank = 0; rank < size && all; rank++) {
        const int blocks = oracle->out_blocks(rank, problem->root, size);
        int nseen = 0;
        memset(seen, 0, (size_t)size * sizeof *seen);
        for (int block = 0; block < blocks; block++) {
            const int last = oracle->last(rank, block, problem->root, size);
            for (int other = oracle->first(rank, block, problem->root, size); other < last;
                 other++) {
                nseen += !seen[other];
                seen[other] = true;
            }
        }
        all = nseen == size;
    }
    free(seen);
    return all;
}

/* The time of the fastest candidate's verifying call, on its slowest rank. Collective. */
static double shortest_first_call(const struct bench *bench, const struct schedule *schedule) {
    double shortest = HUGE_VAL;

    for (int i = 0; i < schedule->nactive; i++) {
        double seconds = schedule->active[i]->first_call;
        must(PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, bench->comm),
             "MPI_Allreduce");
        shortest = fmin(shortest, seconds);
    }
    return shortest;
}

/* Warms the candidates up, and sets repeats and tolerance by the shortest call seen. Collective.
 * Long calls need no warm-up: their verifying call was one. */
static void warm_up(struct bench *bench, const struct problem *problem, struct schedule *schedule) {
    const double first = shortest_first_call(bench, schedule);
    const bool once = cf_library.pass != NULL; /* a simulated call takes the same time again */
    const int rounds = first > long_call || once ? 0 : bench->options.warmup;
    const int n = schedule->nactive * rounds;
    struct stamp *stamps = xmalloc((size_t)n * sizeof *stamps);
    double *seconds = xmalloc((size_t)n * sizeof *seconds);
    memset(stamps, 0, (size_t)n * sizeof *stamps);
    for (int i = 0; i < rounds; i++) {
        (void)run_round(bench, schedule, i, &stamps[i * schedule->nactive]);
    }
    measure(bench, &bench->clock.line, stamps, n, seconds);
    double shortest = rounds > 0 ? HUGE_VAL : first;
    for (int i = 0; i < n; i++) { /* 0: not measured in a discarded round */
        shortest = seconds[i] > 0 ? fmin(shortest, seconds[i]) : shortest;
    }
    const bool in_a_row =
        !once && !problem->in_place && is_synchronising(problem, bench->tested.size);
    int repeats = in_a_row ? bench->options.in_a_row : 1;
    if (shortest < short_call && !once) {
        const int enough = (int)fmin(ceil(long_sample / shortest), MAX_REPEATS);
        repeats = enough > repeats ? enough : repeats;
    }
    schedule->burst = in_a_row ? repeats : 1;
    schedule->windows = in_a_row ? 1 : repeats;
    if (isfinite(shortest)) {
        schedule->calm_tolerance = fmax(min_tolerance, tolerance_share * shortest);
    }
    schedule->restores = shortest > long_call;
    schedule->most_tolerance =
        fmax(2 * min_tolerance, most_tolerance_share / tolerance_share * schedule->calm_tolerance);
    schedule->tolerance = schedule->calm_tolerance;
    schedule->start_error = 0;
    schedule->streak = 0;
    schedule->late = 0;
    free(stamps);
    free(seconds);
}

/* ---- a group --------------------------------------------------------------------------------- */

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

/* Collects the verified candidates in shuffled order, equal on all ranks. */
static void line_up(struct schedule *schedule, struct group *group, unsigned shuffle) {
    schedule->active = xmalloc((size_t)group->ncandidates * sizeof *schedule->active);
    schedule->rounds = xmalloc((size_t)group->ncandidates * sizeof *schedule->rounds);
    memset(schedule->rounds, 0, (size_t)group->ncandidates * sizeof *schedule->rounds);
    schedule->left = xmalloc((size_t)group->ncandidates * sizeof *schedule->left);
    memset(schedule->left, 0, (size_t)group->ncandidates * sizeof *schedule->left);
    for (int i = 0; i < group->ncandidates; i++) {
        if (group->candidates[i].applicable && group->candidates[i].verified) {
            schedule->active[schedule->nactive++] = &group->candidates[i];
        }
    }
    for (int i = schedule->nactive - 1; i > 0; i--) {
        const int other = (int)(next_random(&shuffle) % (unsigned)(i + 1));
        struct candidate *moved = schedule->active[i];
        schedule->active[i] = schedule->active[other];
        schedule->active[other] = moved;
    }
}

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the values. */
static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Sets the candidates' samples. stamps, seconds: [rounds][nactive][windows]. */
static void hand_out(const struct schedule *schedule, const struct stamp *stamps, double *seconds) {
    const int width = schedule->nactive * schedule->windows;
    double *late = xmalloc((size_t)schedule->windows * sizeof *late);

    for (int who = 0; who < schedule->nactive; who++) {
        struct candidate *candidate = schedule->active[who];
        const size_t rounds = (size_t)schedule->rounds[who];
        candidate->samples = xmalloc(rounds * sizeof *candidate->samples);
        candidate->start_errors = xmalloc(rounds * sizeof *candidate->start_errors);
        candidate->nsamples = candidate->verified ? schedule->rounds[who] : 0;
        for (size_t round = 0; round < rounds; round++) {
            const size_t at = round * (size_t)width + (size_t)(who * schedule->windows);
            for (int w = 0; w < schedule->windows; w++) {
                late[w] = stamps[at + (size_t)w].lateness;
            }
            candidate->samples[round] = median(&seconds[at], schedule->windows) / schedule->burst;
            candidate->start_errors[round] = median(late, schedule->windows) / schedule->burst;
        }
    }
    free(late);
}

/* Computes median and minimum [nactive] of the samples so far, for the remaining candidates.
 * seconds: [rounds][nactive][windows]. */
static void take_stock(const struct schedule *schedule, const double *seconds, int kept,
                       double *middle, double *least) {
    const int width = schedule->nactive * schedule->windows;
    double *samples = xmalloc((size_t)kept * sizeof *samples);
    double *windows = xmalloc((size_t)schedule->windows * sizeof *windows);

    for (int who = 0; who < schedule->nactive; who++) {
        if (schedule->left[who]) {
            continue;
        }
        for (int round = 0; round < kept; round++) {
            memcpy(windows, &seconds[round * width + who * schedule->windows],
                   (size_t)schedule->windows * sizeof *windows);
            samples[round] = median(windows, schedule->windows);
        }
        middle[who] = median(samples, kept);
        least[who] = samples[0];
    }
    free(samples);
    free(windows);
}

/* Prunes candidates that are clearly behind, except native, the base of all ratios. seconds:
 * [rounds][nactive][windows], equal on all ranks, so all ranks prune alike. */
static void prune(struct schedule *schedule, const double *seconds, int kept) {
    const double lag = kept < PRUNE_ROUNDS ? prune_lag_of_long : prune_lag;
    double *middle = xmalloc((size_t)schedule->nactive * sizeof *middle);
    double *least = xmalloc((size_t)schedule->nactive * sizeof *least);
    double best = HUGE_VAL;

    take_stock(schedule, seconds, kept, middle, least);
    for (int who = 0; who < schedule->nactive; who++) {
        if (!schedule->left[who]) {
            best = fmin(best, middle[who]);
        }
    }
    for (int who = 0; who < schedule->nactive; who++) {
        if (!schedule->left[who] && schedule->active[who]->choice.variant != NULL) {
            schedule->left[who] = least[who] > best && middle[who] > (1 + lag) * best;
        }
    }
    free(middle);
    free(least);
}

static bool only_native_is_left(const struct schedule *schedule) {
    for (int who = 0; who < schedule->nactive; who++) {
        if (!schedule->left[who] && schedule->active[who]->choice.variant != NULL) {
            return false;
        }
    }
    return schedule->nactive > 1;
}

/* Samples until there are enough; returns the number of rounds kept in stamps. With --prune it sets
 * seconds: [rounds][nactive][windows], by the clock comparison so far. */
static int run_rounds(struct bench *bench, struct schedule *schedule, struct stamp *stamps,
                      double *seconds) {
    const int wanted = bench->options.samples;
    const int width = schedule->nactive * schedule->windows;
    int kept = 0;

    for (int tried = 0; kept < wanted && tried < 3 * wanted + 10; tried++) {
        const struct verdict verdict = run_round(bench, schedule, kept, &stamps[kept * width]);
        if (verdict.late) {
            schedule->most_tolerance *= 2;
        } else {
            for (int who = 0; who < schedule->nactive; who++) {
                schedule->rounds[who] += !schedule->left[who];
            }
            kept++;
        }
        if (verdict.time_is_up && kept >= MIN_ROUNDS) {
            break;
        }
        const bool are_long = schedule->calm_tolerance >= tolerance_share * long_call;
        if (bench->options.prune && !verdict.late) {
            const int last = (kept - 1) * width;
            measure(bench, &bench->clock.line, &stamps[last], width, &seconds[last]);
            if (are_long || kept >= PRUNE_ROUNDS) {
                prune(schedule, seconds, kept);
            }
        }
        if (only_native_is_left(schedule) && kept >= PRUNE_ROUNDS) {
            break;
        }
    }
    return kept;
}

void time_group(struct bench *bench, struct group *group, unsigned shuffle, struct timing *timing) {
    struct schedule schedule = {.windows = 1,
                                .burst = 1,
                                .lead = min_lead,
                                .tolerance = min_tolerance,
                                .most_tolerance = max_lead,
                                .restores = true,
                                .calm_tolerance = min_tolerance};
    struct stamp *stamps = NULL;
    double *seconds = NULL;

    *timing = (struct timing){.repeats = 1};
    line_up(&schedule, group, shuffle);
    if (schedule.nactive == 0) {
        goto cleanup;
    }
    warm_up(bench, &group->problem, &schedule);
    timing->repeats = schedule.windows * schedule.burst;
    const int width = schedule.nactive * schedule.windows;
    stamps = xmalloc((size_t)bench->options.samples * (size_t)width * sizeof *stamps);
    memset(stamps, 0, (size_t)bench->options.samples * (size_t)width * sizeof *stamps);
    seconds = xmalloc((size_t)bench->options.samples * (size_t)width * sizeof *seconds);

    const struct clock_point before = bench->clock.newest;
    const int kept = run_rounds(bench, &schedule, stamps, seconds);
    watchdog_step(group->text);
    clock_compare(&bench->clock);
    const struct clock_line line = clock_interpolation(&before, &bench->clock.newest);
    measure(bench, &line, stamps, kept * width, seconds);
    for (int i = 0; i < schedule.nactive; i++) {
        settle_candidate(bench, schedule.active[i]);
        verify_candidate(bench, schedule.active[i], 1); /* timed calls may show older results */
    }
    hand_out(&schedule, stamps, seconds);
    timing->late = schedule.late;
    timing->start_error = schedule.start_error;
cleanup:
    watchdog_stop();
    free(schedule.active);
    free(schedule.rounds);
    free(schedule.left);
    free(stamps);
    free(seconds);
}
