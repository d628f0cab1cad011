#include "overlap_collectives.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static double *sent, *received;
static size_t held; /* elements of each of both */

static void start_bcast(int count, MPI_Request *request) {
    must(MPI_Ibcast(received, count, MPI_DOUBLE, 0, MPI_COMM_WORLD, request), "MPI_Ibcast");
}

static void start_reduce(int count, MPI_Request *request) {
    must(MPI_Ireduce(sent, received, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD, request),
         "MPI_Ireduce");
}

static void start_allgather(int count, MPI_Request *request) {
    must(MPI_Iallgather(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD,
                        request),
         "MPI_Iallgather");
}

static void start_alltoall(int count, MPI_Request *request) {
    must(MPI_Ialltoall(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD,
                       request),
         "MPI_Ialltoall");
}

static void start_allreduce(int count, MPI_Request *request) {
    must(MPI_Iallreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request),
         "MPI_Iallreduce");
}

static const struct collective collectives[] = {
    {"bcast", start_bcast, false},         {"reduce", start_reduce, false},
    {"allgather", start_allgather, true},  {"alltoall", start_alltoall, true},
    {"allreduce", start_allreduce, false},
};

const struct collective *collective_find(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++) {
        if (strlen(collectives[i].name) == length &&
            strncmp(name, collectives[i].name, length) == 0) {
            return &collectives[i];
        }
    }
    return NULL;
}

/* Bytes of a buffer with one element, or one of each rank. */
static size_t unit(const struct collective *collective) {
    int size = 1;
    if (collective->blocks) {
        must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    }
    return (size_t)size * sizeof(double);
}

size_t collective_bytes(const struct collective *collective, long count) {
    return (size_t)count * unit(collective);
}

long collective_count(const struct collective *collective, size_t bytes) {
    const size_t count = bytes / unit(collective);
    return count < 1 ? 1 : count > INT_MAX ? INT_MAX : (long)count;
}

/* Pages are written before they are timed, and hold numbers that sums leave normal. */
void collective_prepare(const struct collective *collective, long count) {
    const size_t wanted = collective_bytes(collective, count) / sizeof(double);
    if (wanted <= held) {
        return;
    }
    sent = xrealloc(sent, wanted * sizeof *sent);
    received = xrealloc(received, wanted * sizeof *received);
    for (size_t i = 0; i < wanted; i++) {
        sent[i] = received[i] = 1;
    }
    held = wanted;
}

void collective_free(void) {
    free(sent);
    free(received);
    sent = received = NULL;
    held = 0;
}
