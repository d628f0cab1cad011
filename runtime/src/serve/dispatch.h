/* The room serve: decides between native and a variant for each call, and runs it. */
#ifndef COLLFORGE_DISPATCH_H_INCLUDED
#define COLLFORGE_DISPATCH_H_INCLUDED

#include "comm/comm.h"
#include "comm/observe.h"
#include "data/block_sizes.h"
#include "data/facts.h"

/*
 * The choice for MPI_<collective> on comm with this many elements: NULL for native, else to be run
 * by cf_attempt. Begins *call if it is observed. No MPI call and no allocation once comm is known.
 */
const struct cf_choice *cf_choose(int collective, MPI_Comm comm, int count, MPI_Datatype type,
                                  struct cf_call *call);
/* The same by the mean of all ranks' counts. */
const struct cf_choice *cf_choose_mean(int collective, MPI_Comm comm, const int *counts,
                                       MPI_Datatype type, struct cf_call *call);
/* The same for collectives without data, and for those whose sizes the ranks have to exchange: then
 * any choice that may serve it, and cf_attempt decides. */
const struct cf_choice *cf_choose_unsized(int collective, MPI_Comm comm, struct cf_call *call);

/*
 * Runs the choice that cf_choose has just returned for the same communicator, whose state remembers
 * the bytes. Returns CF_DECLINED if native must serve the call, else an MPI error class.
 */
int cf_attempt(const struct cf_choice *choice, int collective, const struct cf_args *args,
               struct cf_call *call);

/* Tells the profile the sizes of a call, where no other rank knows them. */
static inline void cf_sized(int collective, const struct cf_args *args,
                            const struct cf_call *call) {
    if (cf_runtime.awaits_ends && call->tally != NULL) {
        cf_observe_sizes(call, cf_own_mean(&call->state->comm.layout, collective, args));
    }
}

/* Ends a call that is observed or on trial, and that native has served or that has failed. Passes
 * its error on, or returns that of a decision. */
int cf_end_call(int err, const struct cf_call *call);
/* After a call for which a choice was looked up and that native has served. Passes its result on.
 */
static inline int cf_ended(int err, const struct cf_call *call) {
    return cf_runtime.awaits_ends ? cf_end_call(err, call) : err;
}

/*
 * The bytes by which the variant of a call is chosen: of a block, or the mean of all blocks.
 * CF_UNSIZED_BYTES for collectives without data, and where the ranks have to exchange their sizes.
 * counts: NULL, or those of all ranks. Negative if an argument is illegal. Local.
 */
int64_t cf_call_bytes(int collective, int count, MPI_Datatype type, const int *counts, int ranks);

/* The rules' choice for this many bytes; NULL: native. */
const struct cf_choice *cf_choose_bytes(const struct cf_state *state, int collective,
                                        int64_t bytes);

/* The first choice by size that applies on this layout, whatever the sizes, of a collective whose
 * sizes are exchanged. NULL: none, so that nothing is exchanged. */
const struct cf_choice *cf_choose_any(const struct cf_state *state, int collective);

/* Whether a result can depend on the order in which the op was applied. Even a maximum can, of NaNs
 * or of two zeros. Two calls with the same arguments should give the same result (MPI standard,
 * advice to implementors on MPI_Reduce). */
bool cf_shows_order(int collective, MPI_Op op);

/* Add a nonblocking call, described as for the cf_choose functions, to the profile. Local. */
void cf_count(int collective, MPI_Comm comm, int count, MPI_Datatype type);
void cf_count_mean(int collective, MPI_Comm comm, const int *counts, MPI_Datatype type);
void cf_count_unsized(int collective, MPI_Comm comm);

/* A choice is identified by its address, which is not reused while a communicator exists. */

/* Whether a variant can serve a nonblocking call. Ops of the program may be freed after the start;
 * they are native. */
static inline bool cf_may_start(const struct cf_variant *variant, MPI_Op op) {
    const bool has_op = cf_collectives[variant->collective].has_op;
    return !variant->only_blocking && (!has_op || cf_op_is_predefined(op));
}

/* Whether variants may serve the nonblocking calls of a collective. Equal on all ranks. */
static inline bool cf_starts(int collective) {
    return cf_runtime.nonblocking && (cf_runtime.unstarted >> collective & 1) == 0;
}

/* Whether all ranks' arguments are wrong, so that native may refuse them without having told the
 * others. */
bool cf_is_illegal_everywhere(int collective, const struct cf_args *args,
                              const struct cf_layout *layout);

/* Performs all checks between a choice and its run. CF_DECLINED, on all ranks alike, if native must
 * serve the call. Otherwise returns an MPI error class. */
int cf_settle(struct cf_state *state, const struct cf_choice *choice, int collective, int64_t bytes,
              const struct cf_args *args);

/* The same for a nonblocking call: makes no call that waits, so CF_DECLINED also where something is
 * not set up yet. */
int cf_settle_start(struct cf_state *state, const struct cf_choice *choice, int collective,
                    int64_t bytes, const struct cf_args *args);
/* The same in a coroutine, for a collective whose sizes are exchanged, and args that are not
 * illegal everywhere: does so over args->comm, unless native has served many of the last ones in a
 * row. *choice: what cf_choose_any has found; set to what serves the call, if anything does. */
int cf_settle_exchanged(struct cf_state *state, const struct cf_choice **choice,
                        const struct cf_args *args);
/* Runs a settled choice. Device buffers are copied to host memory first. Returns an MPI error
 * class. */
int cf_run_settled(struct cf_state *state, const struct cf_choice *choice,
                   const struct cf_args *args);

/* For the timing driver, which has no winners: does what a wrapper does after it has chosen this
 * for calls of this many bytes. CF_DECLINED: native would run. */
int cf_attempt_chosen(const struct cf_choice *choice, int collective, int64_t bytes,
                      const struct cf_args *args);

/* Whether the choice applies to calls of this many bytes with a commutative op. */
bool cf_applies_by_layout(const struct cf_choice *choice, const struct cf_layout *layout,
                          int64_t bytes);

#endif
