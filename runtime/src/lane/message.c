/* How the lane algorithms wait for messages. */
#include <sched.h>

#include "base/coroutine.h"
#include "base/patience.h"
#include "lane/lane.h"

int cf_wait(MPI_Request *request) {
    /* 200 polls take some ten microseconds. */
    static _Thread_local struct cf_patience patience = {.most = 200, .least = 4, .now = 200};
    struct cf_awaited at = {.request = request};

    if (!cf_may_block()) {
        return cf_coroutine_end(request);
    }
    if (cf_library.pass != NULL) {
        return PMPI_Wait(request, MPI_STATUS_IGNORE);
    }
    if (!cf_has_ended(&at)) {
        cf_poll(&patience, cf_has_ended, NULL, &at);
    }
    return at.err;
}

/* Waits for a request and keeps the first error. */
static void end(MPI_Request *request, int *err) {
    if (*request != MPI_REQUEST_NULL) {
        cf_note(err, cf_wait(request));
    }
}

/* Waits until a deadline, after an error. */
static void end_in_time(MPI_Request *request, double until) {
    int done = *request == MPI_REQUEST_NULL;
    while (!done && PMPI_Wtime() < until &&
           PMPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        (void)sched_yield();
    }
}

int cf_requests_end(MPI_Request *receive, MPI_Request *send, int n, int err) {
    enum { PATIENCE = 10 }; /* seconds */

    for (int i = 0; i < n && receive != NULL; i++) {
        if (err != MPI_SUCCESS && receive[i] != MPI_REQUEST_NULL) {
            (void)PMPI_Cancel(&receive[i]);
        }
        end(&receive[i], &err);
    }
    for (int i = 0; i < n && send != NULL && err == MPI_SUCCESS; i++) {
        end(&send[i], &err);
    }
    const double until = err == MPI_SUCCESS ? 0 : PMPI_Wtime() + PATIENCE;
    for (int i = 0; i < n && send != NULL && err != MPI_SUCCESS; i++) {
        end_in_time(&send[i], until);
    }
    return err;
}

int cf_requests_wait(MPI_Request *send, int n) {
    return cf_requests_end(NULL, send, n, MPI_SUCCESS);
}

int cf_send(const void *data, int count, const struct cf_unit *unit, int target, int tag,
            MPI_Comm comm) {
    MPI_Request sent = MPI_REQUEST_NULL;

    CF_TRY(PMPI_Isend(data, count, unit->type, target, tag, comm, &sent));
    return cf_wait(&sent);
}

int cf_receive(void *data, int count, const struct cf_unit *unit, int source, int tag,
               MPI_Comm comm) {
    MPI_Request received = MPI_REQUEST_NULL;

    CF_TRY(PMPI_Irecv(data, count, unit->type, source, tag, comm, &received));
    return cf_wait(&received);
}

int cf_batch_add(struct cf_batch *batch, struct cf_message out, struct cf_message in,
                 const struct cf_unit *unit, MPI_Comm comm) {
    MPI_Request *receive = &batch->receive[batch->n];
    MPI_Request *send = &batch->send[batch->n];

    batch->n++;
    *receive = *send = MPI_REQUEST_NULL;
    if (in.count > 0) {
        CF_TRY(PMPI_Irecv(in.data, in.count, unit->type, in.rank, 0, comm, receive));
    }
    if (out.count > 0) {
        CF_TRY(PMPI_Isend(out.data, out.count, unit->type, out.rank, 0, comm, send));
    }
    return MPI_SUCCESS;
}

int cf_batch_end(struct cf_batch *batch, int err) {
    return cf_requests_end(batch->receive, batch->send, batch->n, err);
}
