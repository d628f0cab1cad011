/*
 * Functions that can be suspended where they wait, so that a variant can serve a nonblocking
 * collective: each runs on a stack of its own. A coroutine may go on in another thread than the one
 * that it waited in.
 */
#ifndef COLLFORGE_COROUTINE_H_INCLUDED
#define COLLFORGE_COROUTINE_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/runtime.h"

struct cf_coroutine;

/* Bytes of stack, also of the thread for progress: MPI's own calls run there, and in these the ops
 * of other collectives of the program. */
enum { CF_STACK = 8 << 20 };

/* Makes one for body(what), which cf_coroutine_resume begins. NULL when out of memory. */
struct cf_coroutine *cf_coroutine_make(void (*body)(void *what), void *what);
/* Runs it until it waits or ends, unless what it waits for has not come. True at its end, when it
 * is freed. In one thread at a time. */
bool cf_coroutine_resume(struct cf_coroutine *coroutine);

/* Coroutines that have begun and not ended, in all threads. 0: the next functions need not be
 * called. */
CF_HIDDEN extern _Atomic int cf_coroutines;

/* Waits until has_come(what), if the caller runs in a coroutine; else returns false at once. */
bool cf_suspend_long(bool (*has_come)(void *what), void *what);

static inline bool cf_suspend(bool (*has_come)(void *what), void *what) {
    return cf_coroutines != 0 && cf_suspend_long(has_come, what);
}

/* ---- requests -------------------------------------------------------------------------------- */

struct cf_awaited {
    MPI_Request *request;
    int done, err;
};

/* Whether a struct cf_awaited has ended, or its test failed. */
static inline bool cf_has_ended(void *what) {
    struct cf_awaited *at = what;
    at->err = PMPI_Test(at->request, &at->done, MPI_STATUS_IGNORE);
    return at->done || at->err != MPI_SUCCESS;
}

/* ---- calls of MPI that wait ------------------------------------------------------------------ */

/* The request of a call under way in this coroutine; NULL outside of coroutines. */
MPI_Request *cf_coroutine_request(void);
/* Waits for it if err is MPI_SUCCESS. Returns an MPI error class. */
int cf_coroutine_end_request(int err);
/* In a coroutine: as PMPI_Wait without a status. */
int cf_coroutine_end(MPI_Request *request);

static inline bool cf_may_block(void) {
    return cf_coroutines == 0 || cf_coroutine_request() == NULL;
}

/* PMPI_<upper>, as PMPI_I<lower> and a wait in a coroutine. */
#define CF_CALL(upper, lower, ...)                                                                 \
    (cf_may_block()                                                                                \
         ? PMPI_##upper(__VA_ARGS__)                                                               \
         : cf_coroutine_end_request(PMPI_I##lower(__VA_ARGS__, cf_coroutine_request())))

/* As PMPI_Recv without a status. */
static inline int cf_call_receive(void *data, int count, MPI_Datatype type, int source, int tag,
                                  MPI_Comm comm) {
    return cf_may_block() ? PMPI_Recv(data, count, type, source, tag, comm, MPI_STATUS_IGNORE)
                          : cf_coroutine_end_request(PMPI_Irecv(data, count, type, source, tag,
                                                                comm, cf_coroutine_request()));
}

struct cf_call_part {
    void *data;
    int count;
    MPI_Datatype type;
    int rank; /* to which it is sent, or from which it comes */
};

/* As PMPI_Sendrecv with one tag and without a status. */
int cf_call_exchange(struct cf_call_part out, struct cf_call_part in, int tag, MPI_Comm comm);

#endif
