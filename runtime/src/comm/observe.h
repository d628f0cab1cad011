/*
 * Observes the calls of an application: the profile of COLLFORGE_PROFILE, and the decisions of
 * COLLFORGE_VERBOSE=2.
 *
 * A rank tallies the calls of each communicator in its state, without a lock, because a
 * communicator is in one collective at a time. Tallies move to the profile when the communicator is
 * freed.
 */
#ifndef COLLFORGE_OBSERVE_H_INCLUDED
#define COLLFORGE_OBSERVE_H_INCLUDED

#include "comm/comm.h"

/* profile: whether COLLFORGE_PROFILE is set on world rank 0. Begins the time of the job. */
void cf_observe_setup(bool profile);

/* A call begins on this thread. choice: NULL for native. bytes: as it was chosen by. */
void cf_observe_call(struct cf_state *state, int collective, int64_t bytes,
                     const struct cf_choice *choice);
/* The call that this thread began last has ended, if it has not before. */
void cf_observe_end(void);
/* The call that is under way on this thread has been left in another way. */
void cf_observe_forget(void);
/* Records that the choice did not apply to the call. */
void cf_observe_refusal(const struct cf_state *state, int collective, int64_t bytes,
                        const struct cf_choice *choice);
/* Takes the tallies of a communicator that is being freed. */
void cf_observe_leave(struct cf_state *state);

/*
 * After cf_observe_leave for all communicators. Sums the profile over MPI_COMM_WORLD, whose state
 * is passed. World rank 0 writes it to the file COLLFORGE_PROFILE, as CSV with these columns:
 * collective, layout, bytes_from, bytes_to (both included), calls; origin (world, duplicate, other:
 * how the communicators were made), communicators; bytes (sum over calls, of a block or vector as
 * in the database); seconds (sum over calls and ranks); waited (the part of seconds beyond the time
 * of the rank that was the fastest in the mean). The row of the collective `job` has the seconds
 * from MPI_Init to MPI_Finalize of all ranks. Collective if profiling is on.
 */
void cf_observe_finish(const struct cf_state *world);

#endif
