/*
 * The guard: a variant that was not measured on the layout of a communicator proves itself there,
 * and a winner that was measured has to do so from time to time.
 *
 * Native serves its first calls at each size (quarter octave), until they have taken as long as
 * the communicators and connections of a trial took in this job, or COLLFORGE_GUARD_AFTER seconds,
 * whichever is less: a program spends these before it pays for them. Before the first trial of a
 * job nobody knows. Three calls are timed, and the ranks agree on the number. What jobs confirmed
 * on this layout (CF_LEARNT) has no trial.
 *
 * The calls that follow alternate with native ones, in pairs, each after a barrier, and each rank
 * times its own. After the first, third and sixth pair, an allreduce tells all ranks the largest
 * times. A variant that is slower is dropped: native serves such calls on this communicator from
 * then on. A variant more than 4 times and 2 ms slower has one call, one more than 1.5 times slower
 * three, any other slower one six.
 *
 * After each 16381 calls of a collective on a communicator for which a variant was chosen, the
 * variant of that call is tried again, be it measured or kept: other load of the network or another
 * placement than at its measurement may have made it lose. It is dropped only after all six pairs,
 * if it is slower by a tenth.
 *
 * A verdict on blocking calls holds for nonblocking ones, too, since all ranks have it before their
 * next start. Before there is one, or of the map's rows of nonblocking forms, nonblocking calls
 * have a trial of their own, which goes on in their coroutines: over a hidden duplicate of the
 * communicator, native ones, too. What a variant must beat there is the time from the beginning of
 * all ranks' calls to the end of the rank's own, with what the program computes meanwhile. After it
 * was dropped native serves the calls over the duplicate, one after the other, since no start may
 * ask for a verdict that another rank has not come to. Such a trial does not start again.
 * Persistent requests are native where others are on trial; they do not follow variants of the
 * map's rows of nonblocking forms.
 *
 * Irregular collectives are never on trial, and reductions only with COLLFORGE_GUARD=reductions.
 *
 * A native call on trial goes the way of every native call, through the wrapper.
 *
 * Every rank counts the same calls, because the choice is the same on all ranks and is made before
 * the count.
 */
#ifndef COLLFORGE_GUARD_H_INCLUDED
#define COLLFORGE_GUARD_H_INCLUDED

#include "comm/comm.h"

/* A prime, so that each of several sizes in turn is tried again some time. */
enum { CF_CALLS_TO_RETEST = 16381 };

/* Whether the choice is on trial on this communicator for this many bytes; again: whether a re-test
 * is due. */
bool cf_guard_tries(const struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                    bool again);
/* Whether the choice lost that trial, also because its last call failed. */
bool cf_guard_dropped(const struct cf_state *state, const struct cf_choice *choice, int64_t bytes);

/* Before a call of a choice that cf_guard_tries, while nothing is prepared for it: MPI_SUCCESS if
 * it need not wait any more, CF_DECLINED if native is to serve this call, MPI_ERR_NO_MEM.
 * Collective where the ranks agree on the wait. */
int cf_guard_wait(struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                  struct cf_call *call);
/* Begins a call of a choice on trial: MPI_SUCCESS if the variant is to serve it, CF_DECLINED if
 * native is, MPI_ERR_NO_MEM. */
int cf_guard_begin(struct cf_state *state, const struct cf_choice *choice, int64_t bytes,
                   bool again, struct cf_call *call);
/* Ends a call, if it is on trial, also one with an error that has been reported: the other ranks
 * may have none. Collective where a decision is due. Returns an error of the decision, which the
 * MPI library has reported. */
int cf_guard_end(const struct cf_call *call);

#endif
