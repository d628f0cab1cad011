/* The time by which calls are measured. */
#ifndef COLLFORGE_NOW_H_INCLUDED
#define COLLFORGE_NOW_H_INCLUDED

#include <mpi.h> /* a simulation has a clock of its own */
#include <time.h>

/* In seconds. */
static inline double cf_clock(clockid_t clock) {
    struct timespec time = {0};
    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline double cf_now(void) {
    return cf_clock(CLOCK_MONOTONIC);
}

#endif
