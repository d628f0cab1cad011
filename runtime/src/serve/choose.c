/* The choice of a call: by the rules, or as the last call found out (dispatch.h). */
#include "base/cf.h"
#include "comm/comm.h"
#include "comm/observe.h"
#include "comm/report.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "serve/dispatch.h"
#include "serve/fast.h"
#include "serve/guard.h"
#include "start/start.h"

/*
 * The bytes of all blocks divided by the number of ranks, rounded up; negative if a count is. Sums
 * bytes, not elements, because ranks may describe one signature by different types.
 */
static int64_t mean_bytes(const int *counts, int ranks, int64_t type_size) {
    for (int rank = 0; rank < ranks; rank++) {
        if (counts[rank] < 0) {
            return -1;
        }
    }
    return (cf_sum(counts, ranks) * type_size + ranks - 1) / ranks;
}

int64_t cf_call_bytes(int collective, int count, MPI_Datatype type, const int *counts, int ranks) {
    const enum cf_sized sized = cf_collectives[collective].sized;
    if (sized != CF_SIZED_BLOCK && sized != CF_SIZED_MEAN) {
        return CF_UNSIZED_BYTES;
    }
    const int64_t size = cf_type_size(type);
    return size < 0 ? -1 : counts == NULL ? count * size : mean_bytes(counts, ranks, size);
}

/* No memory for the communicator's state; cf_attempt reports the error. */
static const struct cf_choice out_of_memory = {0};

const struct cf_choice *cf_choose_bytes(const struct cf_state *state, int collective,
                                        int64_t bytes) {
    if (bytes <= 0 || bytes > CF_MOST_BYTES || !cf_state_tunes(state, collective)) {
        return NULL;
    }
    return state->rules->by_size[collective * CF_BUCKETS + cf_bucket((uint64_t)bytes)];
}

const struct cf_choice *cf_choose_any(const struct cf_state *state, int collective) {
    struct cf_facts facts;
    const struct cf_choice *last = NULL;
    if (!cf_state_tunes(state, collective)) {
        return NULL;
    }
    cf_facts_fill(&facts, &state->comm.layout, collective, CF_UNSIZED_BYTES, MPI_OP_NULL);
    for (int b = 0; b < CF_BUCKETS; b++) {
        const struct cf_choice *choice = state->rules->by_size[collective * CF_BUCKETS + b];
        if (choice != NULL && choice != last && choice->variant->applicable(&facts)) {
            return choice;
        }
        last = choice;
    }
    return NULL;
}

/* Native for every size. */
static void remember_untuned(struct cf_state *state, int collective, MPI_Datatype type) {
    state->last[collective].native = (struct cf_native){type, INT64_MIN, UINT64_MAX};
}

/*
 * Remembers that native was chosen for these bytes, and so for all sizes around them up to the next
 * one with a variant. The range is stored as elements of the type, `parts` blocks together. Only
 * for predefined types, whose handles are never reused.
 */
static void remember_native(struct cf_state *state, int collective, MPI_Datatype type,
                            int64_t bytes, int parts) {
    const struct cf_choice *const *by_size = &state->rules->by_size[collective * CF_BUCKETS];
    if (bytes <= 0 || bytes > CF_MOST_BYTES || !cf_type_is_predefined(type)) {
        return;
    }
    const int64_t size = cf_type_size(type);
    int begin = cf_bucket((uint64_t)bytes);
    int end = begin + 1;
    while (begin > 0 && by_size[begin - 1] == NULL) {
        begin--;
    }
    while (end < CF_BUCKETS && by_size[end] == NULL) {
        end++;
    }
    /* A mean is rounded up: it reaches `begin` once the sum exceeds that of the size below. */
    const int64_t below = ((int64_t)cf_bucket_begin(begin) - 1) * parts / size;
    const int64_t most =
        (end == CF_BUCKETS ? CF_MOST_BYTES : (int64_t)cf_bucket_begin(end) - 1) * parts / size;
    const int64_t least = begin == 0 ? INT64_MIN : below + 1;
    state->last[collective].native =
        (struct cf_native){type, least, (uint64_t)most - (uint64_t)least};
}

/* Remembers the choice of a variant, which serves the current call. It holds for later calls only
 * if they are not observed, have no counts arrays, and their type cannot be freed. */
static void remember_choice(struct cf_last *last, const struct cf_choice *choice, int64_t bytes,
                            MPI_Datatype type, int count) {
    if (last->choice != choice || last->bytes != bytes) {
        last->settled = false;
    }
    last->choice = choice;
    last->bytes = bytes;
    last->type = type;
    last->count = count;
}

static bool is_for_good(MPI_Datatype type) {
    return type == MPI_DATATYPE_NULL || cf_type_is_predefined(type);
}

/*
 * The slow path of cf_choose. count is 0 for a call with counts; type is MPI_DATATYPE_NULL if the
 * size is not known on all ranks (yet: attempt_exchanged). Observed and counted calls are never
 * remembered, so that all of them come here.
 */
CF_APART static const struct cf_choice *find_choice(struct cf_state *state, int collective,
                                                    int count, MPI_Datatype type, const int *counts,
                                                    struct cf_call *call) {
    const bool observed = cf_runtime.mode > CF_MODE_ON;
    const int ranks = state->comm.layout.size;
    if (ranks == 0) { /* no variant can run */
        if (observed) {
            cf_report_call(state, collective,
                           counts == NULL ? cf_call_bytes(collective, count, type, NULL, 1) : 0);
        }
        return NULL;
    }
    if (!cf_state_tunes(state, collective) && cf_runtime.mode != CF_MODE_OBSERVED) {
        remember_untuned(state, collective, type);
        return NULL;
    }
    const enum cf_sized sized = cf_collectives[collective].sized;
    const int64_t bytes = cf_call_bytes(collective, count, type, counts, ranks);
    if (bytes < 0) {
        return NULL;
    }
    const bool waits = sized == CF_SIZED_EXCHANGED;
    const struct cf_choice *choice =
        waits ? cf_choose_any(state, collective) : cf_choose_bytes(state, collective, bytes);
    if (choice != NULL && cf_guard_dropped(state, choice, bytes)) {
        choice = NULL;
    }
    if (observed) {
        cf_observe_call(state, collective, bytes, call);
    }
    if (observed && (choice == NULL || !waits)) {
        cf_observe_choice(state, collective, bytes, choice, call);
    }
    const bool keeps = !observed && counts == NULL && is_for_good(type);
    if (choice != NULL) {
        remember_choice(&state->last[collective], choice, bytes, keeps ? type : (MPI_Datatype)0,
                        count);
    } else if (observed) {
        return NULL;
    } else if (sized == CF_SIZED_NONE || waits) {
        remember_untuned(state, collective, type);
    } else {
        remember_native(state, collective, type, bytes, counts == NULL ? 1 : ranks);
    }
    return choice;
}

static inline const struct cf_choice *choose(int collective, MPI_Comm comm, int count,
                                             MPI_Datatype type, const int *counts,
                                             struct cf_call *call) {
    struct cf_state *state = NULL;
    if (cf_runtime.awaits_ends) {
        *call = (struct cf_call){0};
    }
    if (cf_runtime.mode < CF_MODE_ON) {
        return NULL;
    }
    const int err = cf_state_of(comm, &state);
    if (err != MPI_SUCCESS) {
        return err == MPI_ERR_NO_MEM ? &out_of_memory : NULL;
    }
    const struct cf_last *last = &state->last[collective];
    return counts != NULL || type != last->type || count != last->count
               ? find_choice(state, collective, count, type, counts, call)
               : last->choice;
}

const struct cf_choice *cf_choose(int collective, MPI_Comm comm, int count, MPI_Datatype type,
                                  struct cf_call *call) {
    return choose(collective, comm, count, type, NULL, call);
}

const struct cf_choice *cf_choose_mean(int collective, MPI_Comm comm, const int *counts,
                                       MPI_Datatype type, struct cf_call *call) {
    return choose(collective, comm, 0, type, counts, call);
}

const struct cf_choice *cf_choose_unsized(int collective, MPI_Comm comm, struct cf_call *call) {
    return choose(collective, comm, 0, MPI_DATATYPE_NULL, NULL, call);
}

int cf_attempt_chosen(const struct cf_choice *choice, int collective, int64_t bytes,
                      const struct cf_args *args) {
    struct cf_state *state = NULL;
    CF_TRY(cf_state_of(args->comm, &state));
    remember_choice(&state->last[collective], choice, bytes, (MPI_Datatype)0, 0);
    struct cf_call call = {0};
    return cf_attempt(choice, collective, args, &call);
}

/* ---- nonblocking collectives in the profile ---------------------------------------------------
 */

static void count_call(int collective, MPI_Comm comm, int count, MPI_Datatype type,
                       const int *counts) {
    struct cf_state *state = NULL;
    if (!cf_observe_counts() || cf_state_of(comm, &state) != MPI_SUCCESS ||
        state->comm.layout.size == 0) {
        return;
    }
    const int64_t bytes = cf_call_bytes(collective, count, type, counts, state->comm.layout.size);
    if (bytes >= 0) {
        cf_observe_nonblocking(state, collective, bytes);
    }
}

void cf_count(int collective, MPI_Comm comm, int count, MPI_Datatype type) {
    count_call(collective, comm, count, type, NULL);
}

void cf_count_mean(int collective, MPI_Comm comm, const int *counts, MPI_Datatype type) {
    if (counts != NULL) {
        count_call(collective, comm, 0, type, counts);
    }
}

void cf_count_unsized(int collective, MPI_Comm comm) {
    count_call(collective, comm, 0, MPI_DATATYPE_NULL, NULL);
}
