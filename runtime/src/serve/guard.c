#include "serve/guard.h"

#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "serve/dispatch.h"
#include "winners/choice.h"

/* After so many pairs a variant is dropped if it is slower by this factor. */
static const struct {
    int pairs;
    double most;
} decisions[] = {{1, 4.0}, {3, 1.5}, {CF_TRIAL_PAIRS, 1.0}};

static struct cf_trial *trial_of(const struct cf_state *state, const struct cf_choice *choice) {
    struct cf_trial *trial = state->trials;
    while (trial != NULL && trial->choice != choice)
        trial = trial->next;
    return trial;
}

/*
 * Results of a sum of floats would differ between the calls of a trial in their last bits. So
 * reductions are tried only if the user allows it, or if the op gives the same in every order.
 */
bool cf_guard_tries(const struct cf_state *state, const struct cf_choice *choice, int collective,
                    MPI_Op op) {
    if (!choice->guarded || cf_runtime.guard == CF_GUARD_OFF ||
        cf_collectives[collective].varies != CF_VARIES_NO ||
        cf_collectives[collective].native == NULL ||
        (cf_runtime.guard != CF_GUARD_REDUCTIONS && cf_shows_order(collective, op)))
        return false;
    const struct cf_trial *trial = trial_of(state, choice);
    return trial == NULL || trial->verdict == CF_TRIAL_OPEN;
}

bool cf_guard_dropped(const struct cf_state *state, const struct cf_choice *choice) {
    const struct cf_trial *trial = trial_of(state, choice);
    return trial != NULL && trial->verdict == CF_TRIAL_DROPPED;
}

static double now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const double *seconds, int count) {
    double sorted[CF_TRIAL_PAIRS];
    for (int i = 0; i < count; i++)
        sorted[i] = seconds[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static void log_verdict(const struct cf_state *state, const struct cf_choice *choice,
                        const double *times, bool keeps) {
    char name[256];
    if (state->comm.layout.rank != 0 || cf_log_level() < 1)
        return;
    cf_choice_format(choice, name, sizeof name);
    cf_log(1, "guard: %s@%s: %s took %.3g s, native %.3g s: %s",
           cf_collectives[choice->variant->collective].name, state->layout_name, name, times[1],
           times[0], keeps ? "kept" : "dropped");
}

/* After a pair. Collective where a decision is due. */
static int decide(struct cf_state *state, struct cf_trial *trial, int pairs) {
    for (size_t i = 0; i < sizeof decisions / sizeof decisions[0]; i++) {
        if (decisions[i].pairs != pairs)
            continue;
        const double own[2] = {median(trial->seconds[0], pairs), median(trial->seconds[1], pairs)};
        double times[2] = {0, 0};
        const int err = PMPI_Allreduce(own, times, 2, MPI_DOUBLE, MPI_MAX, state->comm.handle);
        if (err != MPI_SUCCESS)
            return err;
        const bool slower = times[1] > decisions[i].most * times[0];
        if (slower || pairs == CF_TRIAL_PAIRS) {
            trial->verdict = slower ? CF_TRIAL_DROPPED : CF_TRIAL_KEPT;
            log_verdict(state, trial->choice, times, !slower);
        }
    }
    return MPI_SUCCESS;
}

int cf_guard_run(struct cf_state *state, const struct cf_choice *choice, int collective,
                 const struct cf_args *args) {
    struct cf_trial *trial = trial_of(state, choice);
    if (trial == NULL) {
        trial = calloc(1, sizeof *trial);
        if (trial == NULL)
            return MPI_ERR_NO_MEM;
        trial->choice = choice;
        trial->next = state->trials;
        state->trials = trial;
    }
    /* Native first, then the variant first, in turn: what the first of a pair leaves unfinished
     * slows down the second. */
    const int call = trial->calls++;
    const int pair = call / 2;
    const bool by_variant = call % 2 != pair % 2;
    const double begin = now();
    const int err = by_variant ? choice->variant->run(args, &state->comm, choice->parameter)
                               : cf_collectives[collective].native(args);
    trial->seconds[by_variant][pair] = now() - begin;
    return err != MPI_SUCCESS || call % 2 == 0 ? err : decide(state, trial, pair + 1);
}
