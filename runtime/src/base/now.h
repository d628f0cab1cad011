/* The time by which calls are measured. */
#ifndef COLLFORGE_NOW_H_INCLUDED
#define COLLFORGE_NOW_H_INCLUDED

#include <mpi.h> /* a simulation has a clock of its own */
#include <time.h>

/* CLOCK_MONOTONIC, in seconds. */
static inline double cf_now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
