/*
 * The guard: a variant that was not measured on the layout of a communicator proves itself there.
 *
 * Its first calls alternate with native ones, in pairs, and each rank times its own. After the
 * first, third and sixth pair, an allreduce of two numbers tells all ranks the largest times. A
 * variant that is slower is dropped: native serves its sizes on this communicator from then on.
 * Before the first pair is complete only one call has been slower than native, and a variant more
 * than 4 times slower has no second one. One more than 1.5 times slower has three, any other six.
 *
 * Every rank counts the same calls, because the choice is the same on all ranks and is made before
 * the count.
 */
#ifndef COLLFORGE_GUARD_H_INCLUDED
#define COLLFORGE_GUARD_H_INCLUDED

#include "comm/comm.h"

/* Whether the choice is on trial on this communicator, for calls with this op: its calls must come
 * to cf_guard_run. */
bool cf_guard_tries(const struct cf_state *state, const struct cf_choice *choice, int collective,
                    MPI_Op op);
/* Whether the choice lost its trial on this communicator. */
bool cf_guard_dropped(const struct cf_state *state, const struct cf_choice *choice);
/* Serves a call of a choice on trial, by the variant or by native. Collective. Returns an MPI error
 * class, or CF_DECLINED as the variant does. */
int cf_guard_run(struct cf_state *state, const struct cf_choice *choice, int collective,
                 const struct cf_args *args);

#endif
