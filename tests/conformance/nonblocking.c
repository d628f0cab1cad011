/* With --nonblocking, calls are made as a start and a completion, with others in between. */
#include <string.h>

#include "conformance.h"

enum { FEW = 300 };

/* Messages to oneself beside the collective, completed with it. */
static int with_messages(MPI_Request *request) {
    int out = 17, in = 0, err = MPI_SUCCESS;
    MPI_Request all[3] = {*request, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    must(MPI_Irecv(&in, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &all[1]) == MPI_SUCCESS);
    must(MPI_Isend(&out, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &all[2]) == MPI_SUCCESS);
    for (int left = 3; left > 0 && err == MPI_SUCCESS;) {
        int count = 0, which[3];
        MPI_Status statuses[3];
        err = MPI_Waitsome(3, all, &count, which, statuses);
        left -= count;
    }
    expect(in == 17, "a message to oneself");
    return err;
}

/* Collectives that start later on the same communicator and are completed earlier. */
static int with_later(const struct call *call, MPI_Request *request) {
    int ones[FEW], sums[FEW] = {0};
    MPI_Request later[2];
    for (int i = 0; i < FEW; i++) {
        ones[i] = 1 + i;
    }
    must(MPI_Iallreduce(ones, sums, FEW, MPI_INT, MPI_SUM, call->place->comm, &later[0]) ==
         MPI_SUCCESS);
    must(MPI_Ibarrier(call->place->comm, &later[1]) == MPI_SUCCESS);
    must(MPI_Wait(&later[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int done = 0; !done;) {
        must(MPI_Test(&later[0], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    expect(sums[FEW - 1] == FEW * call->place->size, "a later allreduce");
    return MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* A blocking collective on the same communicator. */
static int with_blocking(const struct call *call, MPI_Request *request) {
    int value[FEW] = {0};
    value[0] = call->place->rank == 0 ? 4711 : 0;
    must(MPI_Bcast(value, FEW, MPI_INT, 0, call->place->comm) == MPI_SUCCESS);
    expect(value[0] == 4711, "a blocking broadcast");
    int done = 0, err = MPI_SUCCESS;
    while (!done && err == MPI_SUCCESS) {
        err = MPI_Request_get_status(*request, &done, MPI_STATUS_IGNORE);
    }
    return err == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : err;
}

static int complete(const struct call *call, unsigned way, MPI_Request *request) {
    int done = 0, index = 0, err = MPI_SUCCESS;
    switch (way) {
    case 0:
        return MPI_Wait(request, MPI_STATUS_IGNORE);
    case 1:
        while (!done && err == MPI_SUCCESS) {
            err = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        }
        return err;
    case 2:
        while (!done && err == MPI_SUCCESS) {
            err = MPI_Testany(1, request, &index, &done, MPI_STATUS_IGNORE);
        }
        return err;
    case 3:
        return with_messages(request);
    case 4:
        return with_later(call, request);
    default:
        return with_blocking(call, request);
    }
}

static int make_persistent(const struct call *call, unsigned way,
                           const struct cf_args *arguments) {
    MPI_Request request = MPI_REQUEST_NULL;
    int err = call->collective->init(arguments, &request);
    if (err == MPI_SUCCESS) {
        err = MPI_Start(&request);
    }
    if (err == MPI_SUCCESS) {
        err = complete(call, way, &request);
    }
    if (request != MPI_REQUEST_NULL) {
        must(MPI_Request_free(&request) == MPI_SUCCESS);
    }
    return err;
}

int make_call(const struct call *call, const struct cf_args *arguments) {
    /* Alike on all ranks: blocking and nonblocking calls do not match. */
    const uint64_t random = mix(call->seed + 1);
    MPI_Request request = MPI_REQUEST_NULL;
    int inter = 0;
    must(PMPI_Comm_test_inter(call->place->comm, &inter) == MPI_SUCCESS);
    /* The library leaves these to native. Open MPI 4.1.4's crash for ops of the program on types
     * with a negative lower bound, and hang for MPI_Ialltoallv in place. */
    const bool in_place = arguments->sendbuf == MPI_IN_PLACE;
    const bool natives = (call->op != NULL && call->op->user) ||
                         (in_place && strcmp(call->collective->name, "alltoallv") == 0);
    if (!program.nonblocking || natives || random % 5 == 0) {
        return call->collective->call(arguments);
    }
    const unsigned way = inter ? 0 : random / 5 % 6;
    if (random / 30 % 4 == 0 && !inter) {
        return make_persistent(call, way, arguments);
    }
    const int err = call->collective->start(arguments, &request);
    return err == MPI_SUCCESS ? complete(call, way, &request) : err;
}
