/* See dispatch.h. */
#include "serve/dispatch.h"

#include "base/cf.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/observe.h"
#include "comm/report.h"
#include "comm/under_way.h"
#include "data/block_sizes.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "data/tmpbuf.h"
#include "device/gpu.h"
#include "device/kinds.h"
#include "device/staging.h"
#include "place/connect.h"
#include "serve/check_ops.h"
#include "serve/guard.h"
#include "winners/fixed_order.h"

/* cf_type_size < 0: the type is not committed. */
static bool side_is_illegal(const void *buffer, int count, MPI_Datatype type) {
    return buffer != MPI_IN_PLACE &&
           (count < 0 || type == MPI_DATATYPE_NULL || cf_type_size(type) < 0);
}

bool cf_is_illegal_everywhere(int collective, const struct cf_args *args,
                              const struct cf_layout *layout) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    /* The last two are ops of one-sided calls only. */
    return (info->has_op &&
            (args->op == MPI_OP_NULL || args->op == MPI_REPLACE || args->op == MPI_NO_OP)) ||
           (info->rooted && (args->root < 0 || args->root >= layout->size));
}

/* Checks only the arguments significant on this rank. */
static bool is_illegal_here(const struct cf_collective_info *info, const struct cf_args *args,
                            const struct cf_layout *layout) {
    /* The exchange of sizes has told all ranks of an illegal one. */
    if (info->sized == CF_SIZED_EXCHANGED || info->sized == CF_SIZED_NONE) {
        return false;
    }
    /* On non-root ranks only the side passed to cf_choose is significant. */
    if (info->rooted && args->root != layout->rank) {
        return false;
    }
    return side_is_illegal(args->sendbuf, args->sendcount, args->sendtype) ||
           side_is_illegal(args->recvbuf, args->recvcount, args->recvtype);
}

/*
 * few: whether the temporaries are known to be within the limit. MPI lets a library call an op with
 * any part of a vector. Ops that need the whole one work with all MPI libraries, which split long
 * vectors only, and each at other lengths, also inside the steps of a variant.
 */
static bool applies(const struct cf_choice *choice, const struct cf_facts *facts, bool few) {
    const bool hybrid = cf_collectives[choice->variant->collective].hybrid;
    return facts->total_bytes <= CF_MOST_BYTES && choice->variant->applicable(facts) &&
           (hybrid || !facts->users_op || cf_runtime.split_ops) &&
           (few || hybrid || cf_memory_suffices(choice, facts));
}

/* Whether the choice serves such calls on the communicator. Reads only uniform facts. */
static bool serves(const struct cf_state *state, const struct cf_choice *choice, int collective,
                   int64_t bytes, MPI_Op op) {
    struct cf_facts facts;
    bool few = false;
    cf_facts_fill(&facts, &state->comm.layout, collective, bytes, op);
    if (cf_collectives[collective].sized == CF_SIZED_EXCHANGED) {
        facts.bytes = state->comm.exchanged.largest;
        facts.total_bytes = state->comm.exchanged.total;
        few = state->comm.exchanged.few;
    }
    return applies(choice, &facts, few);
}

/* Whether all checks of the last call cover this one, except of its counts and root. */
static inline bool is_settled(const struct cf_last *last, const struct cf_args *args) {
    return last->settled && last->op == args->op && last->both == args->sendtype &&
           last->both == args->recvtype;
}

bool cf_shows_order(int collective, MPI_Op op) {
    return cf_collectives[collective].has_op && op != MPI_LAND && op != MPI_LOR && op != MPI_LXOR &&
           op != MPI_BAND && op != MPI_BOR && op != MPI_BXOR;
}

/*
 * Whether this call stays native to save the cost of the node and lane communicators. They pay from
 * the second call on, and a program may create a communicator, call once and free it. All ranks
 * decide alike: the decision reads only uniform facts, and on an incomplete communicator every call
 * that does not wait for a trial comes here, because none is settled. Exceptions, which run at
 * once: MPI_COMM_WORLD, whose communicators are created once; forced choices; and results that
 * would differ between the first and the second call.
 */
static bool has_to_wait(struct cf_state *state, const struct cf_choice *choice,
                        const struct cf_args *args) {
    if (choice->evidence == CF_FORCED || state->waited || state->stage != CF_STAGE_LOCAL ||
        args->comm == MPI_COMM_WORLD || cf_shows_order(choice->variant->collective, args->op)) {
        return false;
    }
    state->waited = true;
    return true;
}

/* Whether this call's buffers may be device memory. */
static bool may_be_on_gpu(struct cf_state *state) {
    return cf_gpu_may_be() && !cf_kinds_are_of_host(state);
}

/* Calls whose buffers may be device memory are never settled, so that each one is checked. The GPU
 * check comes last, in case another thread loads a GPU runtime meanwhile. */
static void remember_settled(struct cf_state *state, int collective, const struct cf_args *args) {
    struct cf_last *last = &state->last[collective];
    if (args->sendtype != args->recvtype || !cf_means_the_same(args->op, args->sendtype)) {
        return;
    }
    last->op = args->op;
    last->both = args->sendtype;
    last->settled = true;
    if (cf_gpu_may_have_come() && may_be_on_gpu(state)) {
        last->settled = false;
    }
}

int cf_settle(struct cf_state *state, const struct cf_choice *choice, int collective, int64_t bytes,
              const struct cf_args *args) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    const struct cf_layout *layout = &state->comm.layout;

    if (cf_is_illegal_everywhere(collective, args, layout)) {
        return CF_DECLINED;
    }
    if (cf_runtime.check_ops && info->has_op && !info->hybrid) {
        cf_check_op(collective, args);
    }
    if (!serves(state, choice, collective, bytes, args->op)) {
        if (cf_runtime.mode == CF_MODE_OBSERVED) {
            cf_observe_refusal(state, collective, bytes, choice);
        }
        return CF_DECLINED;
    }
    if (has_to_wait(state, choice, args)) {
        return CF_DECLINED;
    }
    /* Collective at the first call: no rank may return before. */
    bool ready = false;
    int err = cf_state_complete(state);
    if (err == MPI_SUCCESS && state->stage == CF_STAGE_COMPLETE) {
        err = cf_prepare(choice->variant, &state->comm, choice->parameter, &ready);
    }
    if (err != MPI_SUCCESS) {
        return err;
    }
    if (!ready && cf_runtime.reproducible && info->has_op && layout->rank == 0) {
        cf_order_warn(info->name, state->layout_name);
    }
    /* Only now, so that the other ranks, whose arguments may be legal, do not wait for this one. */
    return !ready || is_illegal_here(info, args, layout) ? CF_DECLINED : MPI_SUCCESS;
}

/* After an exchange; any: a choice that might serve the call. NULL: native. */
static const struct cf_choice *choose_exchanged(const struct cf_state *state,
                                                const struct cf_choice *any) {
    return any->evidence == CF_FORCED
               ? any
               : cf_choose_bytes(state, any->variant->collective, state->comm.exchanged.mean);
}

/* What a blocking variant finds out itself and passes to native, which reports it: in a nonblocking
 * call it would be too late. */
static bool will_be_refused(const struct cf_collective_info *info, const struct cf_args *args,
                            const struct cf_layout *layout) {
    if (info->part == NULL) {
        return false;
    }
    const struct cf_part part = info->part(layout->rank, args->root, layout->size);
    const MPI_Datatype type = part.in_blocks > 0 ? args->sendtype : args->recvtype;
    return cf_in_place_is_illegal(&part, info->single_buffer, args) ||
           (info->has_op && cf_op_check(args->op, type) != MPI_SUCCESS);
}

int cf_settle_start(struct cf_state *state, const struct cf_choice *choice, int collective,
                    int64_t bytes, const struct cf_args *args) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    bool ready = false;
    if (state->stage != CF_STAGE_COMPLETE || !cf_may_start(choice->variant, args->op) ||
        cf_is_illegal_everywhere(collective, args, &state->comm.layout) ||
        !serves(state, choice, collective, bytes, args->op)) {
        return CF_DECLINED;
    }
    cf_prepare_local(true);
    const int err = cf_prepare(choice->variant, &state->comm, choice->parameter, &ready);
    cf_prepare_local(false);
    return err != MPI_SUCCESS || !ready || is_illegal_here(info, args, &state->comm.layout) ||
                   will_be_refused(info, args, &state->comm.layout)
               ? CF_DECLINED
               : MPI_SUCCESS;
}

/*
 * The sizes of an irregular call are known on all ranks only after an exchange, which pays if a
 * variant serves the call then. The first eight calls in a row that native serves after it change
 * nothing, because a program may have several sizes in turn. After further ones, more and more
 * calls are native without an exchange, in the end 66 of 67. All ranks count alike, because all
 * know the same sizes.
 */
static bool pauses(struct cf_exchanges *past) {
    return past->pause > 0 && past->pause-- > 0;
}

/* err: of a call after an exchange. Returns it. */
static int count_vain(struct cf_exchanges *past, const struct cf_choice *any, int err) {
    static const int lengths[] = {0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 10, 18, 36, 66};
    if (err != CF_DECLINED || any->evidence == CF_FORCED) {
        past->in_vain = 0;
        return err;
    }
    past->pause = lengths[past->in_vain];
    if (past->in_vain + 1 < (int)(sizeof lengths / sizeof lengths[0])) {
        past->in_vain++;
    }
    return err;
}

static int settle_exchanged(struct cf_state *state, const struct cf_choice **choice,
                            const struct cf_args *args) {
    const int collective = (*choice)->variant->collective;
    CF_TRY(cf_exchange_sizes(&state->comm, collective, args));
    *choice = choose_exchanged(state, *choice);
    return *choice == NULL
               ? CF_DECLINED
               : cf_settle_start(state, *choice, collective, state->comm.exchanged.mean, args);
}

int cf_settle_exchanged(struct cf_state *state, const struct cf_choice **choice,
                        const struct cf_args *args) {
    const struct cf_choice *any = *choice;
    struct cf_exchanges *past = &state->last[any->variant->collective].started;
    return pauses(past) ? CF_DECLINED
                        : count_vain(past, any, settle_exchanged(state, choice, args));
}

int cf_run_settled(struct cf_state *state, const struct cf_choice *choice,
                   const struct cf_args *args) {
    struct cf_staging staging;
    if (!may_be_on_gpu(state)) {
        return choice->variant->run(args, &state->comm, choice->parameter);
    }
    CF_TRY(cf_staging_begin(&staging, args, choice->variant->collective, &state->comm));
    return cf_staging_end(&staging,
                          choice->variant->run(&staging.args, &state->comm, choice->parameter));
}

/* The next call is looked up anew, in case the variant is dropped. */
static int begin_trial(struct cf_state *state, const struct cf_choice *choice, bool again,
                       struct cf_call *call) {
    struct cf_last *last = &state->last[choice->variant->collective];
    last->type = (MPI_Datatype)0;
    last->settled = false;
    return cf_guard_begin(state, choice, last->bytes, again, call);
}

/* Runs a call of this many bytes that is not settled, or that begins a re-test. Device buffers are
 * copied to host memory first. This is a local decision, on which neither the variant nor its trial
 * may depend. */
CF_APART static int attempt_unsettled(struct cf_state *state, const struct cf_choice *choice,
                                      int64_t bytes, const struct cf_args *args, bool again,
                                      struct cf_call *call) {
    const int collective = choice->variant->collective;
    bool tries = cf_guard_tries(state, choice, bytes, again);
    int err = MPI_SUCCESS;

    /* What cannot run anyway waits for no trial; cf_settle says so. */
    if (tries && !cf_is_illegal_everywhere(collective, args, &state->comm.layout) &&
        serves(state, choice, collective, bytes, args->op)) {
        err = cf_guard_wait(state, choice, bytes, call);
    }
    if (err == MPI_SUCCESS) {
        err = cf_settle(state, choice, collective, bytes, args);
    }
    tries = tries && err == MPI_SUCCESS;
    if (tries) {
        err = begin_trial(state, choice, again, call);
    }
    if (err != MPI_SUCCESS) {
        return err;
    }
    if (!tries && !may_be_on_gpu(state)) {
        remember_settled(state, collective, args);
    }
    return cf_run_settled(state, choice, args);
}

/* any: any choice that may serve the call. CF_DECLINED on all ranks alike. */
static int exchange_and_run(struct cf_state *state, const struct cf_choice *any,
                            const struct cf_args *args, struct cf_call *call) {
    const int collective = any->variant->collective;
    CF_TRY(cf_exchange_sizes(&state->comm, collective, args));
    const int64_t mean = state->comm.exchanged.mean;
    const struct cf_choice *choice = choose_exchanged(state, any);
    if (cf_runtime.mode > CF_MODE_ON) {
        cf_observe_choice(state, collective, mean, choice, call);
    }
    return choice == NULL ? CF_DECLINED : attempt_unsettled(state, choice, mean, args, false, call);
}

CF_APART static int attempt_exchanged(struct cf_state *state, const struct cf_choice *any,
                                      const struct cf_args *args, struct cf_call *call) {
    const int collective = any->variant->collective;
    struct cf_exchanges *past = &state->last[collective].blocking;
    if (cf_is_illegal_everywhere(collective, args, &state->comm.layout) ||
        has_to_wait(state, any, args) || pauses(past)) {
        return CF_DECLINED;
    }
    return count_vain(past, any, exchange_and_run(state, any, args, call));
}

static bool is_alive(const struct cf_call *call) {
    uintptr_t found = 0;
    return cf_handle_find(&cf_states, (uintptr_t)call->comm, &found) &&
           found == (uintptr_t)call->state;
}

static inline int end_call(const struct cf_call *call, bool served) {
    if (cf_runtime.mode == CF_MODE_OBSERVED) {
        cf_report_end();
    }
    if ((call->tally == NULL && call->trial == NULL) || !is_alive(call)) {
        return MPI_SUCCESS;
    }
    cf_observe_end(call, served);
    return cf_guard_end(call);
}

int cf_end_call(int err, const struct cf_call *call) {
    const int ended = end_call(call, false);
    return err == MPI_SUCCESS ? ended : err;
}

CF_APART static int end_served(const struct cf_call *call) {
    return end_call(call, true);
}

int cf_attempt(const struct cf_choice *choice, int collective, const struct cf_args *args,
               struct cf_call *call) {
    struct cf_state *state = NULL;

    if (choice->variant == NULL) {
        return cf_raise(args->comm, MPI_ERR_NO_MEM);
    }
    int err = cf_state_of(args->comm, &state);
    if (err != MPI_SUCCESS) {
        return cf_raise(args->comm, err);
    }
    cf_under_way_finish(state);
    struct cf_last *last = &state->last[collective];
    /* Every rank counts alike: the variant was chosen on all of them. */
    const bool again = ++last->served % CF_CALLS_TO_RETEST == 0;
    /* root and counts are 0 for collectives without them. */
    if (cf_collectives[collective].sized == CF_SIZED_EXCHANGED) {
        err = attempt_exchanged(state, choice, args, call);
    } else if (again || args->root < 0 || args->root >= state->comm.layout.size ||
               args->sendcount < 0 || args->recvcount < 0 || !is_settled(last, args)) {
        err = attempt_unsettled(state, choice, last->bytes, args, again, call);
    } else {
        err = choice->variant->run(args, &state->comm, choice->parameter);
    }
    cf_tmpbufs_trim(&state->comm.tmpbufs);
    if (err == MPI_SUCCESS) {
        return cf_runtime.awaits_ends ? end_served(call) : err;
    }
    if (err == CF_DECLINED) {
        return err;
    }
    err = cf_raise(args->comm, err); /* first: the program may want the job to end here */
    return cf_runtime.awaits_ends ? cf_end_call(err, call) : err;
}

bool cf_applies_by_layout(const struct cf_choice *choice, const struct cf_layout *layout,
                          int64_t bytes) {
    struct cf_facts facts;
    cf_facts_fill(&facts, layout, choice->variant->collective, bytes, MPI_SUM);
    return applies(choice, &facts, false);
}
