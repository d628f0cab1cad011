/*
 * The arguments of a call that outlive its start: nonblocking or persistent. Programs may free
 * their types after it.
 */
#ifndef COLLFORGE_KEPT_H_INCLUDED
#define COLLFORGE_KEPT_H_INCLUDED

#include "comm/under_way.h"
#include "serve/nonblocking.h"

enum { CF_MOST_ARRAYS = 8 };

struct cf_kept {
    struct cf_under_way call;       /* first */
    const struct cf_choice *choice; /* where sizes are exchanged, any that may serve the call */
    struct cf_args args;
    MPI_Datatype own[2];          /* types like the program's */
    void *arrays[CF_MOST_ARRAYS]; /* copies of its counts and displacements */
    int narrays;
    bool short_of_memory;
    bool is_large;
    struct cf_large_counts large;
    cf_native_call *native;
    struct cf_found found; /* zeros of a persistent call */
};

/* Of a call on the state's communicator. Returns an MPI error class, which MPI has been told: *out
 * is NULL then. */
int cf_kept_make(struct cf_state *state, const struct cf_choice *choice,
                 const struct cf_starting *what, struct cf_kept **out);

/* In a coroutine: exchanges sizes or goes on with a trial where it must, and runs the call by a
 * variant, or by native where none serves it then. Returns an MPI error class. */
int cf_kept_run(struct cf_kept *kept);

/* Calls MPI. */
void cf_kept_free_types(struct cf_kept *kept);
/* After that. Does not. */
void cf_kept_free(struct cf_kept *kept);
/* Both, of one that is not under way. */
void cf_kept_discard(struct cf_kept *kept);

#endif
