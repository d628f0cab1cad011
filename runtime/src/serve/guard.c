#include "serve/guard.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/coroutine.h"
#include "base/log.h"
#include "base/now.h"
#include "comm/learn.h"
#include "data/sizes.h"
#include "winners/choice.h"

/*
 * After so many pairs a variant is dropped if it is slower than native by this factor and these
 * seconds more: the first run of a variant makes connections, and touches memory for the first
 * time.
 */
static const struct {
    int pairs;
    double most;
    double seconds;
} decisions[] = {{1, 4.0, 2e-3}, {3, 1.5, 0}, {CF_TRIAL_PAIRS, 1.0, 0}};

/* A re-test has earlier measurements against it, and drops nothing before its end. */
static const double least_loss = 1.1;

/* In a coroutine calls of the program may be under way on the communicator itself. */
static MPI_Comm over(const struct cf_state *state) {
    return cf_may_block() ? state->comm.handle : state->comm.layout.order_comm;
}

static struct cf_trial *trial_of(const struct cf_state *state, const struct cf_choice *choice,
                                 int64_t bytes) {
    const int bucket = cf_bucket((uint64_t)bytes);
    struct cf_trial *trial = state->trials[!cf_may_block()];
    while (trial != NULL && (trial->choice != choice || trial->bucket != bucket)) {
        trial = trial->next;
    }
    return trial;
}

static bool is_open(const struct cf_trial *trial) {
    return trial->verdict == CF_TRIAL_OPEN && trial->calls < 2 * CF_TRIAL_PAIRS;
}

/*
 * Results of a sum of floats would differ between the calls of a trial in their last bits. So
 * reductions are tried only if the user allows it, whatever the op: a choice serves all ops, and
 * so does the verdict.
 */
bool cf_guard_tries(const struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                    bool again) {
    const struct cf_collective_info *info = &cf_collectives[choice->variant->collective];
    if (choice->evidence == CF_FORCED || cf_runtime.guard == CF_GUARD_OFF ||
        info->varies != CF_VARIES_NO || info->native == NULL ||
        (cf_runtime.guard != CF_GUARD_REDUCTIONS && info->has_op)) {
        return false;
    }
    const struct cf_trial *trial = trial_of(state, choice, bytes);
    return again || (trial == NULL ? choice->evidence == CF_EXPECTED : is_open(trial));
}

bool cf_guard_dropped(const struct cf_state *state, const struct cf_choice *choice, int64_t bytes) {
    const struct cf_trial *trial = trial_of(state, choice, bytes);
    return trial != NULL &&
           (trial->verdict == CF_TRIAL_DROPPED ||
            (trial->verdict == CF_TRIAL_OPEN && trial->calls == 2 * CF_TRIAL_PAIRS));
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The lower quartile: noise only makes a call longer. */
static double typical(const double *seconds, int count) {
    double sorted[CF_TRIAL_PAIRS];
    for (int i = 0; i < count; i++) {
        sorted[i] = seconds[i];
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return sorted[count / 4];
}

/*
 * What a trial cost this rank before it could gain anything, for each rank of its communicator: the
 * most of all trials so far, in seconds. Communicators and connections are what it pays for.
 */
static _Atomic double price = 0;

static void remember_price(const struct cf_state *state, const struct cf_trial *trial) {
    const double connecting = trial->seconds[1][0] - trial->seconds[0][0];
    const double paid =
        (trial->set_up + (connecting > 0 ? connecting : 0)) / state->comm.layout.size;
    double known = atomic_load(&price);
    while (trial->set_up > 0 && paid > known &&
           !atomic_compare_exchange_weak(&price, &known, paid)) {
    }
}

/* What is learnt is of blocking calls. */
static void note_verdict(const struct cf_state *state, const struct cf_trial *trial,
                         const double times[2], int pairs) {
    if (!cf_may_block()) {
        return;
    }
    struct cf_lesson lesson = {.choice = *trial->choice,
                               .bytes = (int64_t)cf_bucket_begin(trial->bucket),
                               .seconds = {times[0], times[1]},
                               .pairs = pairs,
                               .again = trial->again,
                               .kept = trial->verdict == CF_TRIAL_KEPT};
    (void)snprintf(lesson.layout, sizeof lesson.layout, "%s", state->layout_name);
    cf_learn_note(&lesson);
}

static void log_verdict(const struct cf_state *state, const struct cf_choice *choice,
                        const double *times, bool keeps) {
    char name[256];
    if (state->comm.layout.rank != 0 || cf_log_level() < 1) {
        return;
    }
    cf_choice_format(choice, name, sizeof name);
    cf_log(1, "guard: %s%s@%s: %s took %.3g s, native %.3g s: %s", cf_may_block() ? "" : "i",
           cf_collectives[choice->variant->collective].name, state->layout_name, name, times[1],
           times[0], keeps ? "kept" : "dropped");
}

/* After a pair. Collective where a decision is due. Returns an MPI error class. */
static int decide(struct cf_state *state, struct cf_trial *trial, int pairs) {
    if (pairs == 1) {
        remember_price(state, trial);
    }
    for (size_t i = 0; i < sizeof decisions / sizeof decisions[0]; i++) {
        if (decisions[i].pairs != pairs) {
            continue;
        }
        const bool last = pairs == CF_TRIAL_PAIRS;
        if (trial->again && !last) {
            continue;
        }
        const double own[2] = {typical(trial->seconds[0], pairs),
                               typical(trial->seconds[1], pairs)};
        double times[2] = {0, 0};
        CF_TRY(CF_CALL(Allreduce, allreduce, own, times, 2, MPI_DOUBLE, MPI_MAX, over(state)));
        const double factor = trial->again ? least_loss : decisions[i].most;
        const bool slower = times[1] > factor * times[0] + decisions[i].seconds;
        if (slower || last) {
            trial->verdict = slower ? CF_TRIAL_DROPPED : CF_TRIAL_KEPT;
            log_verdict(state, trial->choice, times, !slower);
            note_verdict(state, trial, times, pairs);
        }
    }
    return MPI_SUCCESS;
}

/* NULL when out of memory. */
static struct cf_trial *begin_trial(struct cf_state *state, const struct cf_choice *choice,
                                    int64_t bytes, bool again) {
    struct cf_trial *trial = calloc(1, sizeof *trial);
    if (trial == NULL) {
        return NULL;
    }
    trial->choice = choice;
    trial->bucket = cf_bucket((uint64_t)bytes);
    trial->again = again && choice->evidence != CF_EXPECTED;
    trial->shortest = HUGE_VAL;
    struct cf_trial **first = &state->trials[!cf_may_block()];
    trial->next = *first;
    *first = trial;
    return trial;
}

static void begin_call(struct cf_state *state, struct cf_trial *trial, int number,
                       struct cf_call *call) {
    call->comm = state->comm.handle;
    call->state = state;
    call->trial = trial;
    call->number = number;
}

/*
 * As long as a trial costs, where ranks know that from another one, and no longer than the user
 * says: so a program whose calls end early has lost at most as much by waiting as by not waiting.
 * By the shortest of the timed calls, so that one late rank does not shorten the wait. The first
 * one is not timed: it makes connections. Returns an MPI error class, which the MPI library has
 * reported: a handler may have freed the communicator.
 */
static int agree_on_wait(const struct cf_state *state, struct cf_trial *trial) {
    const double paid = atomic_load(&price) * state->comm.layout.size;
    const double own[2] = {trial->shortest, paid > 0 ? paid : HUGE_VAL};
    double most[2] = {0, 0};
    CF_TRY(CF_CALL(Allreduce, allreduce, own, most, 2, MPI_DOUBLE, MPI_MAX, over(state)));
    /* Infinite: nothing was timed on some rank. */
    const bool known = most[0] > 0 && most[0] < HUGE_VAL;
    const double seconds = most[1] < cf_runtime.guard_after ? most[1] : cf_runtime.guard_after;
    const double calls = known ? seconds / most[0] : INT32_MAX;
    trial->wait = calls < INT32_MAX ? (int64_t)calls : INT32_MAX;
    if (trial->wait < CF_TRIAL_TIMED) {
        trial->wait = CF_TRIAL_TIMED;
    }
    return MPI_SUCCESS;
}

/* Whether calls of the choice wait for a trial: not for a re-test, nor once it has begun. */
static bool is_to_wait(const struct cf_trial *trial, const struct cf_choice *choice) {
    if (cf_runtime.guard_after <= 0) {
        return false;
    }
    return trial == NULL ? choice->evidence == CF_EXPECTED : !trial->again && trial->calls == 0;
}

int cf_guard_wait(struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                  struct cf_call *call) {
    struct cf_trial *trial = trial_of(state, choice, bytes);
    if (!is_to_wait(trial, choice)) {
        return MPI_SUCCESS;
    }
    if (trial == NULL) {
        trial = begin_trial(state, choice, bytes, false);
    }
    CF_TRY_MEMORY(trial);
    if (trial->waited == CF_TRIAL_TIMED && trial->wait == 0 &&
        agree_on_wait(state, trial) != MPI_SUCCESS) {
        return CF_DECLINED;
    }
    if (trial->waited >= CF_TRIAL_TIMED && trial->waited >= trial->wait) {
        trial->set_up = cf_now();
        return MPI_SUCCESS;
    }
    if (trial->waited > 0 && trial->waited < CF_TRIAL_TIMED) {
        begin_call(state, trial, -1, call);
        call->trial_begin = cf_now();
    }
    trial->waited++;
    return CF_DECLINED;
}

/* Native first, then the variant first, in turn: what the first of a pair leaves unfinished slows
 * down the second. */
static bool is_by_variant(int call) {
    return call % 2 != call / 2 % 2;
}

int cf_guard_begin(struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                   bool again, struct cf_call *call) {
    struct cf_trial *trial = trial_of(state, choice, bytes);
    if (trial == NULL) {
        trial = begin_trial(state, choice, bytes, again);
    }
    CF_TRY_MEMORY(trial);
    if (again && !is_open(trial)) {
        trial->calls = 0;
        trial->set_up = 0;
        trial->verdict = CF_TRIAL_OPEN;
        trial->again = true;
    }
    if (trial->calls == 0 && trial->set_up > 0) {
        trial->set_up = cf_now() - trial->set_up;
    }
    begin_call(state, trial, trial->calls++, call);
    trial->seconds[is_by_variant(call->number)][call->number / 2] = HUGE_VAL;
    /* So that no call on trial has the waiting for a late rank. */
    (void)CF_CALL(Barrier, barrier, over(state));
    call->trial_begin = cf_now();
    return is_by_variant(call->number) ? MPI_SUCCESS : CF_DECLINED;
}

int cf_guard_end(const struct cf_call *call) {
    struct cf_trial *trial = call->trial;
    if (trial == NULL) {
        return MPI_SUCCESS;
    }
    const double seconds = cf_now() - call->trial_begin;
    if (call->number < 0) {
        trial->shortest = seconds < trial->shortest ? seconds : trial->shortest;
        return MPI_SUCCESS;
    }
    trial->seconds[is_by_variant(call->number)][call->number / 2] = seconds;
    return call->number % 2 == 0 ? MPI_SUCCESS : decide(call->state, trial, call->number / 2 + 1);
}
