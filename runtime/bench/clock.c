#include "clock.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/library.h"
#include "report.h"

enum { EXCHANGES = 64, CLOCK_TAG = 1 };

static const double worst_quartz = 1e-4;
static const double spin_seconds = 200e-6; /* more than the wake-up latency of a sleeping process */

/* ---- pure arithmetic ------------------------------------------------------------------------- */

struct clock_point clock_estimate(const struct clock_exchange *exchanges, int n) {
    const struct clock_exchange *best = &exchanges[0];

    for (int i = 1; i < n; i++) {
        if (exchanges[i].received - exchanges[i].sent < best->received - best->sent) {
            best = &exchanges[i];
        }
    }
    const double half = (best->received - best->sent) / 2;
    return (struct clock_point){best->sent + half, best->remote - (best->sent + half), half};
}

struct clock_line clock_interpolation(const struct clock_point *before,
                                      const struct clock_point *after) {
    const double elapsed = after->reference - before->reference;
    const double drift = elapsed > 0 ? (after->offset - before->offset) / elapsed : 0;
    return (struct clock_line){before->reference, before->offset, drift};
}

struct clock_line clock_extrapolation(const struct clock_point *first,
                                      const struct clock_point *newest) {
    const double elapsed = newest->reference - first->reference;
    const bool known = first->error + newest->error < worst_quartz * elapsed;
    const double drift = known ? (newest->offset - first->offset) / elapsed : 0;
    return (struct clock_line){newest->reference, newest->offset, drift};
}

double clock_to_local(const struct clock_line *line, double reference) {
    return reference + line->offset + line->drift * (reference - line->reference);
}

double clock_to_reference(const struct clock_line *line, double local) {
    return line->reference + (local - line->offset - line->reference) / (1 + line->drift);
}

/* ---- between ranks --------------------------------------------------------------------------- */

double clock_local(const struct clock *clock) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec - clock->origin + 1e-9 * (double)now.tv_nsec;
}

/* A number equal in all processes that read the same clock. */
static uint64_t domain_of_clock(void) {
    char text[MPI_MAX_PROCESSOR_NAME + 64] = "";
    int length = 0;
    uint64_t hash = CF_HASH_BEGIN;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (file == NULL || fgets(text, sizeof text, file) == NULL) {
        must(PMPI_Get_processor_name(text, &length), "MPI_Get_processor_name");
    }
    if (file != NULL) {
        fclose(file);
    }
    hash = cf_hash_text(hash, text);
    const ssize_t used = readlink("/proc/self/ns/time", text, sizeof text - 1);
    text[used > 0 ? used : 0] = '\0';
    return cf_hash_text(hash, text);
}

static void find_domains(struct clock *clock, int rank, int size, bool alone) {
    uint64_t mine = alone ? (uint64_t)rank : domain_of_clock();
    uint64_t *all = xmalloc((size_t)size * sizeof *all);

    must(PMPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, clock->comm),
         "MPI_Allgather");
    clock->leaders = xmalloc((size_t)size * sizeof *clock->leaders);
    clock->ndomains = 0;
    for (int other = 0; other < size; other++) {
        int known = 0;
        while (known < clock->ndomains && all[clock->leaders[known]] != all[other]) {
            known++;
        }
        if (known == clock->ndomains) {
            clock->leaders[clock->ndomains++] = other;
        }
        if (other == rank) {
            clock->leader = clock->leaders[known];
        }
    }
    free(all);
}

/* On rank 0: compares with a domain's leader and sends it the result. */
static void ask(const struct clock *clock, int leader) {
    struct clock_exchange exchanges[EXCHANGES];
    struct clock_point point;

    for (int i = 0; i < EXCHANGES; i++) {
        exchanges[i].sent = clock_local(clock);
        must(PMPI_Send(NULL, 0, MPI_BYTE, leader, CLOCK_TAG, clock->comm), "MPI_Send");
        must(PMPI_Recv(&exchanges[i].remote, 1, MPI_DOUBLE, leader, CLOCK_TAG, clock->comm,
                       MPI_STATUS_IGNORE),
             "MPI_Recv");
        exchanges[i].received = clock_local(clock);
    }
    point = clock_estimate(exchanges, EXCHANGES);
    must(PMPI_Send(&point, sizeof point, MPI_BYTE, leader, CLOCK_TAG, clock->comm), "MPI_Send");
}

static struct clock_point answer(const struct clock *clock) {
    struct clock_point point;

    for (int i = 0; i < EXCHANGES; i++) {
        must(PMPI_Recv(NULL, 0, MPI_BYTE, 0, CLOCK_TAG, clock->comm, MPI_STATUS_IGNORE),
             "MPI_Recv");
        const double now = clock_local(clock);
        must(PMPI_Send(&now, 1, MPI_DOUBLE, 0, CLOCK_TAG, clock->comm), "MPI_Send");
    }
    must(PMPI_Recv(&point, sizeof point, MPI_BYTE, 0, CLOCK_TAG, clock->comm, MPI_STATUS_IGNORE),
         "MPI_Recv");
    return point;
}

void clock_compare(struct clock *clock) {
    int rank = 0;
    struct clock_point point = {clock_local(clock), 0, 0};

    must(PMPI_Comm_rank(clock->comm, &rank), "MPI_Comm_rank");
    for (int i = 1; rank == 0 && i < clock->ndomains; i++) {
        ask(clock, clock->leaders[i]);
    }
    if (rank != 0 && rank == clock->leader) {
        point = answer(clock);
    }
    if (clock->ndomains > 1) {
        must(PMPI_Bcast(&point, sizeof point, MPI_BYTE, 0, clock->domain_comm), "MPI_Bcast");
    }
    clock->newest = point;
    clock->line = clock_extrapolation(&clock->first, &clock->newest);
}

void clock_create(struct clock *clock, MPI_Comm comm, bool alone) {
    int rank = 0;
    int size = 0;

    *clock = (struct clock){.comm = comm, .domain_comm = MPI_COMM_NULL};
    must(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    must(PMPI_Comm_size(comm, &size), "MPI_Comm_size");
    find_domains(clock, rank, size, alone);
    must(PMPI_Comm_split(comm, clock->leader, rank, &clock->domain_comm), "MPI_Comm_split");
    double origin = floor(clock_local(clock));
    must(PMPI_Bcast(&origin, 1, MPI_DOUBLE, 0, comm), "MPI_Bcast");
    clock->origin = origin;
    clock_compare(clock);
    clock->first = clock->newest;
    clock->line = clock_extrapolation(&clock->first, &clock->newest);
}

void clock_free(struct clock *clock) {
    must(PMPI_Comm_free(&clock->domain_comm), "MPI_Comm_free");
    free(clock->leaders);
    clock->leaders = NULL;
}

double clock_wait(const struct clock *clock, double reference) {
    const double deadline = clock_to_local(&clock->line, reference);
    double now = clock_local(clock);

    if (cf_library.pass != NULL) {
        if (deadline > now) {
            cf_library.pass(deadline - now);
        }
        return clock_local(clock);
    }
    if (deadline - now > 2 * spin_seconds) {
        const double wake = deadline - spin_seconds + clock->origin;
        const struct timespec until = {.tv_sec = (time_t)wake,
                                       .tv_nsec = (long)(1e9 * (wake - floor(wake)))};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
        now = clock_local(clock);
    }
    while (now < deadline) {
        sched_yield();
        now = clock_local(clock);
    }
    return now;
}

double clock_error(const struct clock *clock) {
    double error = clock->newest.error;
    must(PMPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_MAX, clock->comm),
         "MPI_Allreduce");
    return error;
}
