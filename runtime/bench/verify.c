#include <stdio.h>

#include "bench.h"
#include "data/facts.h"
#include "hybrid/hybrid.h"
#include "node/shared_window.h"
#include "oracle.h"
#include "report.h"
#include "serve/dispatch.h"

/* How late a rank enters a barrier, whose order in time is all that can be verified. */
static const double lateness = 3e-3;

/* A byte that makes data wrong and counts negative. Different from the pattern of results before
 * the call (data.c), so that an untouched result is never mistaken for one copied from a
 * temporary. */
static const int spoiled = 0xB6;

int64_t choice_bytes(const struct problem *problem) {
    const bool unsized = cf_collectives[problem->collective].sized == CF_SIZED_NONE;
    return unsized ? CF_UNSIZED_BYTES : problem->bytes;
}

void reset_for(struct bench *bench, const struct candidate *candidate) {
    data_reset(&bench->data, candidate->choice.variant == NULL);
}

int call_candidate(struct bench *bench, const struct candidate *candidate) {
    const struct problem *problem = bench->data.problem;
    const struct cf_collective_info *info = &cf_collectives[problem->collective];
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];

    if (problem->nonblocking) {
        return call_nonblocking(bench, candidate);
    }
    if (candidate->choice.variant == NULL && info->hybrid) {
        return bench->options.drop_in ? oracle->drop_in(&bench->data.args)
                                      : oracle->native(&bench->data.args);
    }
    if (candidate->choice.variant == NULL) {
        return info->native(&bench->data.args);
    }
    if (info->hybrid) {
        return cf_hybrid_attempt(cf_hybrid_find(bench->data.hybrid), &candidate->choice,
                                 problem->collective, &bench->data.args);
    }
    return cf_attempt_chosen(&candidate->choice, problem->collective, choice_bytes(problem),
                             &bench->data.args);
}

struct cf_comm *comm_of(struct bench *bench) {
    return cf_collectives[bench->data.problem->collective].hybrid
               ? &cf_hybrid_find(bench->data.hybrid)->state->comm
               : bench->tested.state;
}

/* As in the wrappers (cf_attempt). */
static bool is_applicable(const struct bench *bench, const struct problem *problem,
                          const struct cf_choice *choice) {
    const MPI_Op op = types_op_handle(problem->op);
    struct cf_facts facts;

    if (choice->variant == NULL) {
        return true;
    }
    if (problem->nonblocking && !cf_may_start(choice->variant, op)) {
        return false;
    }
    cf_facts_fill(&facts, &bench->tested.state->layout, problem->collective, choice_bytes(problem),
                  op);
    return facts.total_bytes <= CF_MOST_BYTES && choice->variant->applicable(&facts);
}

static void refute(struct candidate *candidate, int rank, const char *what) {
    candidate->verified = false;
    snprintf(candidate->detail, sizeof candidate->detail, "rank %d: %s", rank, what);
}

void check_candidate(struct bench *bench, struct candidate *candidate, int err) {
    if (!candidate->verified) {
        return;
    }
    if (err == CF_DECLINED && !candidate->declined) {
        refute(candidate, bench->rank, "declined a call that was served on other ranks or before");
    } else {
        candidate->verified = data_check(&bench->data, err, bench->tested.rank, candidate->detail,
                                         sizeof candidate->detail);
    }
}

void settle_candidate(struct bench *bench, struct candidate *candidate) {
    const int mine = candidate->verified ? bench->size : bench->rank;
    int first = bench->size;

    must(PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, bench->comm), "MPI_Allreduce");
    if (first == bench->size) {
        return;
    }
    candidate->verified = false;
    must(PMPI_Bcast(candidate->detail, DETAIL_SIZE, MPI_CHAR, first, bench->comm), "MPI_Bcast");
}

/* Whether all ranks left the call to native, if a variant may. Collective. */
static bool all_declined(const struct bench *bench, int err) {
    const struct cf_collective_info *info = &cf_collectives[bench->data.problem->collective];
    int served = err != CF_DECLINED;

    if (info->sized == CF_SIZED_BLOCK) {
        return false;
    }
    must(PMPI_Allreduce(MPI_IN_PLACE, &served, 1, MPI_INT, MPI_MAX, bench->comm), "MPI_Allreduce");
    return served == 0;
}

struct outcome {
    int err;
    double seconds;
    double early; /* seconds that this rank left before the late one entered */
};

static struct outcome call_once(struct bench *bench, const struct candidate *candidate) {
    const double start = clock_local(&bench->clock);
    const int err = call_candidate(bench, candidate);

    return (struct outcome){.err = err, .seconds = clock_local(&bench->clock) - start};
}

/*
 * Calls a collective without a result while one rank enters late; no rank may leave before it. The
 * clocks are compared first, and their error is allowed for, so a correct variant never fails. A
 * wrong variant fails only if a rank that it should wait for is late, hence the turns.
 */
static struct outcome call_late(struct bench *bench, const struct candidate *candidate,
                                unsigned turn) {
    const int late = (int)((bench->data.problem->seed + turn) % (unsigned)bench->tested.size);
    const struct clock *clock = &bench->clock;

    clock_compare(&bench->clock);
    const double error = 2 * clock_error(clock); /* of two ranks' clocks */
    double start = clock_to_reference(&clock->line, clock_local(clock));
    must(PMPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, bench->comm),
         "MPI_Allreduce");
    start += bench->tested.rank == late ? lateness + error : 0;
    double entered = clock_to_reference(&clock->line, clock_wait(clock, start));
    const int err = call_candidate(bench, candidate);
    const double left = clock_to_reference(&clock->line, clock_local(clock));
    must(PMPI_Bcast(&entered, 1, MPI_DOUBLE, late, bench->tested.comm), "MPI_Bcast");
    return (struct outcome){err, left - entered, entered - error - left};
}

/*
 * Overwrites the temporaries and this rank's segment of the shared-memory window. Earlier calls of
 * the same problem left data there that would be right even for a variant that forgets to write it.
 * No other rank reads there now, because all have settled the candidate.
 */
static void spoil_leftovers(struct bench *bench) {
    const struct cf_comm *comm = comm_of(bench);
    const struct cf_tmpbufs *tmpbufs = &comm->tmpbufs;
    const struct cf_shared *shared = comm->shared;

    for (int slot = 0; slot < CF_TMPBUF_SLOTS; slot++) {
        if (tmpbufs->data[slot] != NULL) {
            memset(tmpbufs->data[slot], spoiled, tmpbufs->capacity[slot]);
        }
    }
    if (shared != NULL && shared->n > 1) {
        struct cf_shared_segment *mine = shared->segments[shared->me];
        memset(mine->buffers, spoiled, sizeof mine->buffers);
        for (int i = 0; i < CF_SHARED_SLOTS; i++) {
            memset(mine->slots[i].data, spoiled, sizeof mine->slots[i].data);
        }
    }
}

void verify_candidate(struct bench *bench, struct candidate *candidate, unsigned turn) {
    const bool moves_nothing = cf_oracles[bench->data.problem->collective].moves_nothing;
    char what[64] = "";

    watchdog_step(candidate->text);
    reset_for(bench, candidate);
    spoil_leftovers(bench);
    const struct outcome outcome =
        moves_nothing ? call_late(bench, candidate, turn) : call_once(bench, candidate);
    if (turn == 0) {
        candidate->first_call = outcome.seconds;
        candidate->declined = all_declined(bench, outcome.err);
    }
    check_candidate(bench, candidate, outcome.err);
    if (candidate->verified && outcome.err == MPI_SUCCESS && outcome.early > 0) {
        snprintf(what, sizeof what, "left %.3g s before the last rank entered", outcome.early);
        refute(candidate, bench->rank, what);
    }
    settle_candidate(bench, candidate);
    if (candidate->declined && candidate->verified) {
        candidate->applicable = candidate->verified = false;
        snprintf(candidate->detail, sizeof candidate->detail, "declined");
    }
}

void verify_group(struct bench *bench, struct group *group) {
    watchdog_step(group->text);
    bench->group_start = clock_local(&bench->clock);
    data_prepare(&bench->data, &group->problem, bench->tested.comm);
    for (int i = 0; i < group->ncandidates; i++) {
        struct candidate *candidate = &group->candidates[i];

        candidate->applicable = is_applicable(bench, &group->problem, &candidate->choice);
        candidate->verified = candidate->applicable;
        if (candidate->applicable) {
            verify_candidate(bench, candidate, 0);
        }
    }
    watchdog_stop();
}
