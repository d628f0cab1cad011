#include "serve/nonblocking.h"

#include <stdlib.h>

#include "serve/guard.h"
#include "serve/kept.h"

static int run(struct cf_under_way *call) {
    struct cf_kept *kept = (struct cf_kept *)call;
    const int err = cf_kept_run(kept);
    cf_kept_free_types(kept);
    return err;
}

/* MPICH calls it with its lock held: calls of MPI would end in an assertion. */
static void release(struct cf_under_way *call) {
    cf_kept_free((struct cf_kept *)call);
}

/* Its nonblocking form; itself if that has no rules of its own. */
static int form_of(int collective) {
    const int form = cf_collectives[collective].form;
    return form != 0 ? form : collective;
}

/* Of a collective whose sizes are exchanged: any. */
static const struct cf_choice *choose(const struct cf_state *state, const struct cf_starting *what,
                                      int64_t bytes) {
    const int collective = what->collective;
    if (!cf_starts(collective)) {
        return NULL;
    }
    if (cf_collectives[collective].sized == CF_SIZED_EXCHANGED) {
        return cf_choose_any(state, collective);
    }
    const struct cf_choice *choice = cf_choose_bytes(state, form_of(collective), bytes);
    /* Persistent requests have no trials. Blocking calls tell of their own choices only. */
    const bool unproved = choice != NULL && choice->evidence == CF_EXPECTED;
    return what->persistent && unproved ? cf_choose_bytes(state, collective, bytes) : choice;
}

const struct cf_choice *cf_find_start(struct cf_state *state, const struct cf_state *judge,
                                      const struct cf_starting *what, struct cf_found *found) {
    const int collective = what->collective;
    const struct cf_comm *comm = &state->comm;
    const bool exchanges = cf_collectives[collective].sized == CF_SIZED_EXCHANGED;
    const int64_t bytes =
        cf_call_bytes(collective, what->count, what->type, what->counts, comm->layout.size);
    const struct cf_choice *choice = choose(state, what, bytes);
    *found = (struct cf_found){.chosen = choice != NULL, .bytes = bytes};
    if (choice == NULL || state->stage != CF_STAGE_COMPLETE) {
        return NULL;
    }
    found->on_trial = !exchanges && cf_guard_tries(judge, choice, bytes, false);
    if ((exchanges || found->on_trial) &&
        (comm->order_refused || comm->layout.order_comm == MPI_COMM_NULL)) {
        return NULL;
    }
    if (exchanges) {
        return cf_is_illegal_everywhere(collective, what->args, &comm->layout) ? NULL : choice;
    }
    return !cf_guard_dropped(judge, choice, bytes) && !(found->on_trial && what->persistent) &&
                   cf_settle_start(state, choice, collective, bytes, what->args) == MPI_SUCCESS
               ? choice
               : NULL;
}

static int begin(struct cf_state *state, const struct cf_choice *choice,
                 const struct cf_starting *what, const struct cf_found *found,
                 MPI_Request *request) {
    struct cf_kept *kept = NULL;
    CF_TRY(cf_kept_make(state, choice, what, &kept));
    kept->found = *found;
    kept->call.collective = what->collective;
    kept->call.bytes = found->bytes;
    kept->call.run = run;
    kept->call.free = release;
    const int err = cf_under_way_start(&kept->call, request);
    if (err != MPI_SUCCESS) {
        cf_kept_discard(kept);
    }
    return err;
}

static int start(struct cf_state *state, const struct cf_starting *what, MPI_Request *request) {
    struct cf_found found;
    if (what->persistent) {
        return cf_init(state, what, request);
    }
    const struct cf_choice *choice = cf_find_start(state, state, what, &found);
    if (choice == NULL) {
        return cf_decline_start(found.chosen);
    }
    return begin(state, choice, what, &found, request);
}

int cf_start_chosen(const struct cf_choice *choice, int64_t bytes, const struct cf_starting *what,
                    MPI_Request *request) {
    const struct cf_found found = {.chosen = true, .bytes = bytes};
    struct cf_state *state = NULL;
    bool ready = false;
    CF_TRY(cf_state_of(what->args->comm, &state));
    CF_TRY(cf_state_complete(state));
    if (state->stage != CF_STAGE_COMPLETE) {
        return CF_DECLINED;
    }
    CF_TRY(cf_prepare(choice->variant, &state->comm, choice->parameter, &ready));
    CF_TRY(cf_settle_start(state, choice, what->collective, bytes, what->args));
    return begin(state, choice, what, &found, request);
}

/* The large counts of all ranks, whose sum decides, as plain ones. */
static int start_narrowed(struct cf_state *state, const struct cf_starting *what,
                          MPI_Request *request) {
    const int size = state->comm.layout.size;
    struct cf_starting plain = *what;
    struct cf_args args = *what->args;
    int *counts = malloc((size_t)size * sizeof *counts);
    if (counts == NULL) {
        return cf_raise(args.comm, MPI_ERR_NO_MEM);
    }
    args.recvcounts = plain.counts = cf_narrow_all(what->large->recvcounts, counts, size);
    plain.args = &args;
    plain.large = NULL;
    const int err = start(state, &plain, request);
    free(counts);
    return err;
}

int cf_start(const struct cf_starting *what, MPI_Request *request) {
    const bool mean = cf_collectives[what->collective].sized == CF_SIZED_MEAN;
    struct cf_state *state = NULL;
    if (cf_runtime.mode < CF_MODE_ON || cf_state_of(what->args->comm, &state) != MPI_SUCCESS ||
        state->comm.layout.size == 0) {
        return CF_DECLINED;
    }
    if (mean && what->large != NULL && what->large->recvcounts != NULL) {
        return start_narrowed(state, what, request);
    }
    if (mean && what->counts == NULL) {
        return CF_DECLINED;
    }
    return start(state, what, request);
}
