/* Nonblocking and persistent collectives by variants (comm/under_way.h, comm/companions.h). */
#ifndef COLLFORGE_NONBLOCKING_H_INCLUDED
#define COLLFORGE_NONBLOCKING_H_INCLUDED

#include "comm/usage.h"
#include "serve/dispatch.h"
#include "serve/large.h"

/* The counts of a large-count function, which struct cf_args lacks. Those that it does not have are
 * 0 or NULL. */
struct cf_large_counts {
    MPI_Count sendcount, recvcount;
    const MPI_Count *sendcounts, *recvcounts;
};

/* In a coroutine: the call by the MPI library, over args->comm. large: NULL, or what args lacks. */
typedef int cf_native_call(const struct cf_args *args, const struct cf_large_counts *large);

/* What a wrapper passes on. The size of the call as for the cf_choose functions. */
struct cf_starting {
    const struct cf_args *args;
    int collective;
    int count;
    MPI_Datatype type; /* MPI_DATATYPE_NULL: without data, or not known yet */
    const int *counts; /* NULL, or of all ranks */
    cf_native_call *native;
    const struct cf_large_counts *large; /* NULL: args has all counts */
    bool persistent;                     /* MPI_<collective>_init */
};

/*
 * Starts MPI_I<collective>, or makes a persistent request for it. CF_DECLINED, on all ranks alike,
 * if native must: there is no winner, a persistent request asks for one that is on trial, or
 * something of it is not set up, which only a blocking call can do. Otherwise returns an MPI error
 * class. Waits for no rank unless persistent.
 */
int cf_start(const struct cf_starting *what, MPI_Request *request);

/* For tests and the timing driver: starts the call by this choice, whatever the winners are. bytes:
 * its size for the choice. Collective. CF_DECLINED, on all ranks alike, if it cannot serve it. */
int cf_start_chosen(const struct cf_choice *choice, int64_t bytes, const struct cf_starting *what,
                    MPI_Request *request);

struct cf_found {
    bool chosen;   /* there was a choice */
    bool on_trial; /* it has to prove itself first, which the coroutine sees to */
    int64_t bytes; /* by which it was chosen */
};

/* The choice that serves such calls on the state's communicator, now or after an exchange of sizes.
 * NULL: native. The same on all ranks but where arguments are illegal. judge: the state with the
 * trials of blocking calls. */
const struct cf_choice *cf_find_start(struct cf_state *state, const struct cf_state *judge,
                                      const struct cf_starting *what, struct cf_found *found);

/* Tells the user's count of nonblocking calls that native has to serve one of a choice. */
static inline int cf_decline_start(bool chosen) {
    if (chosen && cf_runtime.counts) {
        cf_usage_started(false);
    }
    return CF_DECLINED;
}

/* serve/persistent.c. The same for a persistent request. Collective. */
int cf_init(struct cf_state *state, const struct cf_starting *what, MPI_Request *request);

#endif
