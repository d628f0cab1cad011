/*
 * Observes the calls of an application: the profile of COLLFORGE_PROFILE, the decisions of
 * COLLFORGE_VERBOSE=2, and what the library did for the job (usage.h).
 *
 * A rank tallies the calls of each communicator in its state, without a lock, because a
 * communicator is in one collective at a time. Tallies move to the profile and the usage when the
 * communicator is freed.
 */
#ifndef COLLFORGE_OBSERVE_H_INCLUDED
#define COLLFORGE_OBSERVE_H_INCLUDED

#include "comm/comm.h"

/* profile: whether COLLFORGE_PROFILE is set on world rank 0; tuned: whether there are winners.
 * Begins the time of the job. */
void cf_observe_setup(bool profile, bool tuned);

/* A call begins. bytes: as it is chosen by; CF_UNSIZED_BYTES if its sizes have to be exchanged,
 * which cf_observe_sizes adds. */
void cf_observe_call(struct cf_state *state, int collective, int64_t bytes, struct cf_call *call);
/* The mean bytes of this rank's own blocks in a call that has begun, whose sizes only an exchange
 * tells. */
void cf_observe_sizes(const struct cf_call *call, double own_mean);
/* Whether calls are counted: COLLFORGE_PROFILE is set. */
bool cf_observe_counts(void);
/* A nonblocking call begins. bytes as in cf_observe_call. Only if calls are counted. */
void cf_observe_nonblocking(struct cf_state *state, int collective, int64_t bytes);
/* One that a variant served has ended, seconds after its start. in_mpi: how long the program was in
 * MPI meanwhile. Only if calls are counted; in any thread. */
void cf_observe_ended(const struct cf_state *state, int collective, int64_t bytes, double seconds,
                      double in_mpi);
/* What serves calls of this many bytes. choice: NULL for native. */
void cf_observe_choice(const struct cf_state *state, int collective, int64_t bytes,
                       const struct cf_choice *choice, struct cf_call *call);
/* It has ended without an error. served: by the choice. */
void cf_observe_end(const struct cf_call *call, bool served);
/* Records that the choice did not apply to the call. */
void cf_observe_refusal(const struct cf_state *state, int collective, int64_t bytes,
                        const struct cf_choice *choice);
/* Takes the tallies of a communicator that is being freed. */
void cf_observe_leave(struct cf_state *state);

/*
 * After cf_observe_leave for all communicators. Sums the profile over MPI_COMM_WORLD, whose state
 * is passed (NULL, on any rank: there is no profile), and writes it on world rank 0 to the file
 * COLLFORGE_PROFILE, as CSV. Collective if profiling is on. The columns:
 *
 * - collective, layout, bytes_from, bytes_to (both included), calls
 * - blocking: 1, or 0 for nonblocking calls. Of those that variants serve, seconds are from start
 * to end, and waited how long the program was in MPI meanwhile; of others both are 0, and so are
 * call_bytes of those whose sizes no rank knows alone
 * - origin: how the communicators were made: world, duplicate (of one that had a state), other
 * - communicators: their number; ranks: how many ranks called on one of them; dropped: on how many
 * of them the guard dropped a variant
 * - call_bytes: sum over calls, of a block or vector as in the database; in gatherv, scatterv and
 * alltoallv the mean of all blocks, and all calls are in the row of 1 byte, because no rank knows
 * all sizes
 * - seconds: sum over calls and ranks
 * - waited: the part of seconds beyond the time of the rank that was the fastest in the mean; 0
 *   where a rank may leave before others have come (with a root, in prefix reductions, alltoallv,
 * and without data)
 *
 * The row of the collective `job` has the seconds from MPI_Init to MPI_Finalize of all ranks, and
 * the origin `tuned` if there were winners.
 */
void cf_observe_finish(const struct cf_state *world);

#endif
