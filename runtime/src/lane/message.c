/* How the lane algorithms wait for messages. */
#include "lane/lane.h"

#include <sched.h>

enum {
    MOST_LOOKS = 200, /* polls; some ten microseconds */
    LEAST_LOOKS = 4,
};

/* How often a thread polls before it yields the CPU, adapted as in shared.c. MPI's own waits may
 * keep the core much longer. With more ranks than cores, the other ranks of the node would then
 * send late. */
static _Thread_local int patience = MOST_LOOKS;

int cf_wait(MPI_Request *request) {
    int done = 0;
    int err = PMPI_Test(request, &done, MPI_STATUS_IGNORE);

    if (done || err != MPI_SUCCESS) {
        return err;
    }
    for (int look = 1; look < patience && !done && err == MPI_SUCCESS; look++) {
        err = PMPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    patience = done ? 2 * patience : patience / 2;
    patience = patience > MOST_LOOKS ? MOST_LOOKS : patience < LEAST_LOOKS ? LEAST_LOOKS : patience;
    while (!done && err == MPI_SUCCESS) {
        (void)sched_yield();
        err = PMPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    return err;
}

/* Waits for a request and keeps the first error. */
static void end(MPI_Request *request, int *err) {
    if (*request != MPI_REQUEST_NULL) {
        const int own = cf_wait(request);
        *err = *err == MPI_SUCCESS ? own : *err;
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

int cf_send_receive(struct cf_message out, struct cf_message in, const struct cf_unit *unit,
                    MPI_Comm comm) {
    MPI_Request received = MPI_REQUEST_NULL;
    MPI_Request sent = MPI_REQUEST_NULL;

    CF_TRY(PMPI_Irecv(in.data, in.count, unit->type, in.rank, 0, comm, &received));
    const int err = PMPI_Isend(out.data, out.count, unit->type, out.rank, 0, comm, &sent);
    return cf_requests_end(&received, &sent, 1, err);
}
