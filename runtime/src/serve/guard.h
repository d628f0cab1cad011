/*
 * The guard: a variant that was not measured on the layout of a communicator proves itself there.
 *
 * Its first calls at each size (quarter octave) alternate with native ones, in pairs, and each rank
 * times its own. After the first, third and sixth pair, an allreduce of two numbers tells all ranks
 * the largest times. A variant that is slower is dropped: native serves such calls on this
 * communicator from then on. A variant more than 4 times and 2 ms slower has one call, one more
 * than 1.5 times slower three, any other slower one six.
 *
 * A native call on trial goes the way of every native call, through the wrapper.
 *
 * Every rank counts the same calls, because the choice is the same on all ranks and is made before
 * the count.
 */
#ifndef COLLFORGE_GUARD_H_INCLUDED
#define COLLFORGE_GUARD_H_INCLUDED

#include "comm/comm.h"

/* Whether the choice is on trial on this communicator for this many bytes. */
bool cf_guard_tries(const struct cf_state *state, const struct cf_choice *choice, int64_t bytes);
/* Whether the choice lost that trial, also because its last call failed. */
bool cf_guard_dropped(const struct cf_state *state, const struct cf_choice *choice, int64_t bytes);

/* Begins a call of a choice on trial: MPI_SUCCESS if the variant is to serve it, CF_DECLINED if
 * native is, MPI_ERR_NO_MEM. */
int cf_guard_begin(struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                   struct cf_call *call);
/* Ends a call without an error, if it is on trial. Collective where a decision is due. Returns an
 * error of the decision, which the MPI library has reported. */
int cf_guard_end(const struct cf_call *call);

#endif
