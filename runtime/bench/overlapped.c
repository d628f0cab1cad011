/*
 * Calls of a nonblocking problem. To verify one, it is started and waited for. To time one, a
 * program is imitated that makes it twice: once it waits at once, and once it computes in between,
 * for as long as native's call takes alone. So the winner is what costs such a program least.
 */
#include <math.h>

#include "bench.h"
#include "oracle.h"
#include "report.h"
#include "serve/nonblocking.h"

enum { TRIES = 3, UNITS = 1 << 15 };

static volatile double sink;

/* Takes a time in proportion to the units, and no memory. */
static void compute(int64_t units) {
    double x = 1;
    for (int64_t i = 0; i < units; i++) {
        x = x * 0.999999 + 1e-6;
    }
    sink = x;
}

static int start(const struct bench *bench, const struct candidate *candidate,
                 MPI_Request *request) {
    const struct problem *problem = bench->data.problem;
    const struct cf_collective_info *info = &cf_collectives[problem->collective];
    const struct cf_starting what = {.args = &bench->data.args, .collective = problem->collective};
    return candidate->choice.variant == NULL
               ? cf_collectives[info->form].start(&bench->data.args, request)
               : cf_start_chosen(&candidate->choice, choice_bytes(problem), &what, request);
}

int call_nonblocking(struct bench *bench, const struct candidate *candidate) {
    int err = MPI_SUCCESS;
    for (int turn = 0; turn < (bench->computation > 0 ? 2 : 1) && err == MPI_SUCCESS; turn++) {
        MPI_Request request = MPI_REQUEST_NULL;
        err = start(bench, candidate, &request);
        if (err == MPI_SUCCESS) {
            compute(turn == 0 ? 0 : bench->computation);
            err = PMPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    return err;
}

/* Seconds of a unit on this rank, without disturbance. */
static double unit_seconds(const struct clock *clock) {
    double least = HUGE_VAL;
    for (int i = 0; i < TRIES; i++) {
        const double begin = clock_local(clock);
        compute(UNITS);
        least = fmin(least, (clock_local(clock) - begin) / UNITS);
    }
    return fmax(least, 1e-12); /* a coarse clock may not have gone on */
}

void plan_computation(struct bench *bench, const struct problem *problem) {
    const struct candidate native = {0};
    double least = HUGE_VAL;
    if (!problem->nonblocking) {
        return;
    }
    for (int i = 0; i < TRIES; i++) {
        reset_for(bench, &native);
        must(PMPI_Barrier(bench->comm), "MPI_Barrier");
        const double begin = clock_local(&bench->clock);
        must(call_nonblocking(bench, &native), cf_collectives[problem->collective].function);
        double seconds = clock_local(&bench->clock) - begin;
        must(PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, bench->comm),
             "MPI_Allreduce");
        least = fmin(least, seconds);
    }
    bench->computation = 1 + (int64_t)(least / unit_seconds(&bench->clock));
}
