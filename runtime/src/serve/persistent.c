/*
 * Persistent collectives by variants. Each has a communicator of its own (comm/companions.h), and
 * its request is a persistent receive of a message that the process sends itself at the end:
 * MPI_Start refuses generalized requests. After an error the message is too long for the receive:
 * MPI_ERR_TRUNCATE is what whoever completes the request is told.
 */
#include <stdlib.h>

#include "base/chain.h"
#include "base/handle_table.h"
#include "comm/companions.h"
#include "serve/kept.h"

struct persistent {
    struct cf_kept *kept;
    struct cf_companions *companions;
    int taken; /* of these */
};

enum { TAG = 0 }; /* nothing else is sent over the communicator itself */

/* By their requests. */
static struct cf_handle_table persistents = CF_HANDLE_TABLE_INITIALIZER;

static struct persistent *find(MPI_Request request) {
    uintptr_t found = 0;
    return cf_handle_find(&persistents, (uintptr_t)request, &found) ? (struct persistent *)found
                                                                    : NULL;
}

static int run(struct cf_under_way *call) {
    return cf_kept_run((struct cf_kept *)call);
}

/* Its receive is there, so this does not wait. Not over a communicator of one process: MPICH 4.0.2
 * loses messages there between two threads. */
static void complete(struct cf_under_way *call) {
    const struct cf_comm *comm = &call->state->comm;
    const char excess = 0;
    (void)PMPI_Send(&excess, call->err != MPI_SUCCESS, MPI_BYTE, comm->layout.rank, TAG,
                    comm->handle);
}

/* Frees one that MPI's own functions have no request of any more, or not yet. */
static void discard(struct persistent *one) {
    if (one->kept != NULL) {
        cf_kept_discard(one->kept);
    }
    cf_companion_give(one->companions, one->taken);
    free(one);
}

/* Errors of a companion's request are the program's. */
static int lend_handler(MPI_Comm from, MPI_Comm to) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    CF_TRY(PMPI_Comm_get_errhandler(from, &handler));
    const int err = PMPI_Comm_set_errhandler(to, handler);
    (void)PMPI_Errhandler_free(&handler);
    return err;
}

/* Local. Returns an MPI error class. */
static int make(struct cf_state *state, const struct cf_choice *choice,
                const struct cf_starting *what, struct persistent *one, MPI_Request *request) {
    CF_TRY(cf_kept_make(state, choice, what, &one->kept));
    CF_TRY(lend_handler(what->args->comm, state->comm.handle));
    one->kept->args.comm = state->comm.handle;
    one->kept->call.run = run;
    one->kept->call.complete = complete;
    CF_TRY(PMPI_Recv_init(NULL, 0, MPI_BYTE, state->comm.layout.rank, TAG, state->comm.handle,
                          request));
    one->kept->call.request = *request;
    return cf_handle_insert(&persistents, (uintptr_t)*request, (uintptr_t)one) ? MPI_SUCCESS
                                                                               : MPI_ERR_NO_MEM;
}

int cf_init(struct cf_state *state, const struct cf_starting *what, MPI_Request *request) {
    struct persistent *one = calloc(1, sizeof *one);
    struct cf_state *companion = NULL;
    const struct cf_choice *choice = NULL;
    struct cf_found found;
    int taken = -1;
    const bool good = cf_find_start(state, state, what, &found) != NULL && one != NULL;
    if (!found.chosen || state->stage != CF_STAGE_COMPLETE) {
        free(one);
        return cf_decline_start(found.chosen);
    }
    int err = cf_companion_take(state, good, &taken);
    if (err == MPI_SUCCESS && taken >= 0) {
        err = cf_state_of(state->companions->comm[taken], &companion);
        choice = err == MPI_SUCCESS ? cf_find_start(companion, state, what, &found) : NULL;
        if (choice != NULL) { /* another request had the companion */
            companion->last[what->collective].started = (struct cf_exchanges){0};
        }
    }
    if (taken < 0 || one == NULL) {
        free(one);
        return err == MPI_SUCCESS ? cf_decline_start(true) : err;
    }
    *one = (struct persistent){.companions = state->companions, .taken = taken};
    if (err == MPI_SUCCESS && choice != NULL) {
        err = make(companion, choice, what, one, request);
    }
    if (err != MPI_SUCCESS || choice == NULL) {
        discard(one);
    }
    if (err != MPI_SUCCESS) {
        return cf_raise(what->args->comm, err);
    }
    return choice == NULL ? cf_decline_start(true) : MPI_SUCCESS;
}

/* ---- MPI's functions for requests ------------------------------------------------------------ */

static int start(MPI_Request *request, int (*next)(MPI_Request *)) {
    struct persistent *one = request == NULL ? NULL : find(*request);
    const int err = next(request);
    if (one != NULL && err == MPI_SUCCESS) {
        cf_under_way_queue(&one->kept->call);
    }
    return err;
}

static int start_all(int n, MPI_Request *requests, int (*next)(int, MPI_Request *),
                     int (*next_one)(MPI_Request *)) {
    bool any = false;
    for (int i = 0; i < n && requests != NULL && !any; i++) {
        any = find(requests[i]) != NULL;
    }
    if (!any) {
        return next(n, requests);
    }
    for (int i = 0; i < n; i++) {
        CF_TRY(start(&requests[i], next_one));
    }
    return MPI_SUCCESS;
}

static int free_request(MPI_Request *request, int (*next)(MPI_Request *)) {
    struct persistent *one = request == NULL ? NULL : find(*request);
    if (one != NULL) {
        /* MPI forbids it while the collective is under way: nothing may crash then. */
        cf_under_way_finish(one->kept->call.state);
        cf_handle_remove(&persistents, (uintptr_t)*request);
        discard(one);
    }
    return next(request);
}

/* Under both names, because Open MPI's Fortran routines call PMPI's. */
__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Start(MPI_Request *request);
__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Startall(int n, MPI_Request requests[]);
__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Request_free(MPI_Request *request);

/* clang-format off */
static CF_OWN(own_start, PMPI_Start, (MPI_Request *request), request)
static CF_OWN(own_startall, PMPI_Startall, (int n, MPI_Request *requests), n, requests)
static CF_OWN(own_request_free, PMPI_Request_free, (MPI_Request *request), request)

static struct {
    int (*start)(MPI_Request *);
    int (*startall)(int, MPI_Request *);
    int (*request_free)(MPI_Request *);
} chained = {PMPI_Start, PMPI_Startall, PMPI_Request_free};
/* clang-format on */

__attribute__((constructor)) static void chain(void) {
    cf_chain("MPI_Start", &chained.start);
    cf_chain("MPI_Startall", &chained.startall);
    cf_chain("MPI_Request_free", &chained.request_free);
}

COLLFORGE_PUBLIC int MPI_Start(MPI_Request *request) {
    return start(request, chained.start);
}

COLLFORGE_PUBLIC int MPI_Startall(int n, MPI_Request requests[]) {
    return start_all(n, requests, chained.startall, chained.start);
}

COLLFORGE_PUBLIC int MPI_Request_free(MPI_Request *request) {
    return free_request(request, chained.request_free);
}

int PMPI_Start(MPI_Request *request) {
    return start(request, own_start);
}

int PMPI_Startall(int n, MPI_Request requests[]) {
    return start_all(n, requests, own_startall, own_start);
}

int PMPI_Request_free(MPI_Request *request) {
    return free_request(request, own_request_free);
}
