/*
 * The companions of a communicator: hidden duplicates, each with a state of its own, so that
 * collectives on it may be under way in any order. Persistent collectives need them: MPI lets each
 * rank start those of one communicator in another order.
 *
 * A rank gives one back alone, but takes one together with the others: the lowest that all have. So
 * giving back frees nothing. What all have is freed with the communicator, the rest never.
 */
#ifndef COLLFORGE_COMPANIONS_H_INCLUDED
#define COLLFORGE_COMPANIONS_H_INCLUDED

#include "comm/comm.h"

enum { CF_MOST_COMPANIONS = 31 };

struct cf_companions {
    _Atomic uint32_t free; /* by bit */
    int made;
    MPI_Comm comm[CF_MOST_COMPANIONS];
};

/* Collective. Sets *taken to one that is set up, or to -1 on all ranks: if good is false on any of
 * them, or no further communicator may be made. Returns an MPI error class. */
int cf_companion_take(struct cf_state *state, bool good, int *taken);
/* Local. */
void cf_companion_give(struct cf_companions *companions, int taken);

/* Collective over a communicator that is about to be freed. Does nothing if it has none. */
void cf_companions_free(struct cf_state *state);

#endif
