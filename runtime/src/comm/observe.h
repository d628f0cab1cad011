/*
 * Observes the calls of an application: the counts of COLLFORGE_PROFILE and the decisions of
 * COLLFORGE_VERBOSE=2. Rank 0 of each communicator records both, so that a call counts once.
 */
#ifndef COLLFORGE_OBSERVE_H_INCLUDED
#define COLLFORGE_OBSERVE_H_INCLUDED

#include "comm/comm.h"

void cf_observe_setup(bool profile);
/* choice: NULL for native. */
void cf_observe_call(const struct cf_state *state, int collective, int64_t bytes,
                     const struct cf_choice *choice);
/* Records that the choice did not apply to the call. */
void cf_observe_refusal(const struct cf_state *state, int collective, int64_t bytes,
                        const struct cf_choice *choice);
/*
 * Sums the counts over MPI_COMM_WORLD. World rank 0 writes them to the file COLLFORGE_PROFILE: CSV
 * with the columns collective, layout, bytes_from, bytes_to (both included), calls. Collective if
 * profiling is on.
 */
void cf_observe_finish(void);

#endif
