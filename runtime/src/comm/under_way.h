/*
 * Nonblocking collectives that variants serve. Each runs as a coroutine (base/coroutine.h), which
 * goes on whenever the MPI library makes progress, in any call of MPI that waits, or in a thread of
 * its own (comm/progress_thread.h).
 *
 * The collectives of one communicator run one after the other, in the order of their start, which
 * is the same on all ranks. So they share its hidden communicators, windows and temporaries, also
 * with the blocking ones, which wait for them. None waits for a call that its program makes later:
 * each rank has started the one before, or will.
 */
#ifndef COLLFORGE_UNDER_WAY_H_INCLUDED
#define COLLFORGE_UNDER_WAY_H_INCLUDED

#include "comm/comm.h"

/* A call that has started. Its maker embeds it. */
struct cf_under_way {
    int (*run)(struct cf_under_way *);       /* in the coroutine; returns an MPI error class */
    void (*complete)(struct cf_under_way *); /* completes its request */
    void (*free)(struct cf_under_way *);     /* of a generalized request */
    struct cf_state *state;
    int err;
    MPI_Request request;
    int collective; /* for the profile; -1: not counted there */
    int64_t bytes;
    double begin, in_mpi;           /* when it started, and the seconds in MPI before */
    struct cf_coroutine *coroutine; /* NULL: waits for an earlier one of its communicator */
    struct cf_under_way *next;      /* of all communicators, in the order of their start */
};

/* In MPI_Init, on all ranks: sets cf_runtime.nonblocking if the MPI library lets calls go on in its
 * progress or there is a thread for it, and sets MPI_COMM_WORLD up. */
void cf_under_way_begin(bool wanted);

/* Sets a new communicator up if variants may serve it, because a start cannot: other ranks may not
 * come to it before this one has gone on. Collective. Does nothing for MPI_COMM_NULL. */
void cf_under_way_set_up(MPI_Comm comm);

/* Starts a call, which has its request. */
void cf_under_way_queue(struct cf_under_way *call);
/* Starts a call, and sets *request to a generalized one, which the program may wait for as for any
 * other; call->free is called with it. Returns an MPI error class, and then nothing is started. */
int cf_under_way_start(struct cf_under_way *call, MPI_Request *request);

/* Before MPI's own MPI_Finalize: waits for all calls, and ends the thread, because inside of it
 * MPICH is no longer safe for threads. Later calls end in their start, if only the thread made
 * progress. */
void cf_under_way_end(void);

/* Waits for all calls of a communicator, or of all (NULL). */
void cf_under_way_finish_long(const struct cf_state *state);
static inline void cf_under_way_finish(const struct cf_state *state) {
    if (state->under_way != 0) {
        cf_under_way_finish_long(state);
    }
}

#endif
