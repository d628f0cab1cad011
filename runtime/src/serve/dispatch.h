/* The room serve: from a call of the program to native or to the variant that runs it. */
#ifndef COLLFORGE_DISPATCH_H_INCLUDED
#define COLLFORGE_DISPATCH_H_INCLUDED

#include "comm/comm.h"

/*
 * What MPI_<collective> on comm runs for this many bytes: NULL for native, else a choice whose
 * variant is to be run by cf_attempt. No MPI call and no allocation once comm is known.
 */
const struct cf_choice *cf_choose(int collective, MPI_Comm comm, int count, MPI_Datatype type);
/* The same for the mean of the counts of all ranks. */
const struct cf_choice *cf_choose_mean(int collective, MPI_Comm comm, const int *counts,
                                       MPI_Datatype type);
/* The same for collectives whose size is not known alike on all ranks. */
const struct cf_choice *cf_choose_unsized(int collective, MPI_Comm comm);

/*
 * Runs the choice that cf_choose has just returned for the same communicator, whose state remembers
 * the bytes. CF_DECLINED for a call that is left to native, else an MPI error class.
 */
int cf_attempt(const struct cf_choice *choice, int collective, const struct cf_args *args);

/* What the rules of the communicator say for this many bytes; NULL: native. */
const struct cf_choice *cf_choose_bytes(const struct cf_state *state, int collective,
                                        int64_t bytes);

/* A choice is known by its address: its memory never holds another one while a communicator lives.
 */

/* All that stands between a choice and its run, by which a call may turn out not to be one for it
 * (CF_DECLINED, alike on all ranks). Returns an MPI error class otherwise. */
int cf_settle(struct cf_state *state, const struct cf_choice *choice, int collective, int64_t bytes,
              const struct cf_args *args);

/* What a wrapper does once it has chosen this for calls of so many bytes: for the timing driver,
 * which has no winners. CF_DECLINED: native would run. */
int cf_attempt_chosen(const struct cf_choice *choice, int collective, int64_t bytes,
                      const struct cf_args *args);

/* Whether the choice applies to calls of this many bytes with a commutative op. */
bool cf_applies_by_layout(const struct cf_choice *choice, const struct cf_layout *layout,
                          int64_t bytes);

#endif
