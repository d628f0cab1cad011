/*
 * Timing windows of overlap.c: all ranks start at one time of the common clock, and their stamps
 * are read on it afterwards (Denis, Jaeger, Jeannot and Reynier, 2022, sections 4.1 and 4.2).
 *
 * A window that a rank enters late is discarded, counted and repeated at once, as by the driver
 * (runtime/bench/sample.c), by the same rules for the lead and for the tolerance. The clocks are
 * compared before and after the windows, with about a thousand round trips, and stamps between are
 * interpolated.
 */
#ifndef COLLFORGE_OVERLAP_WINDOWS_H_INCLUDED
#define COLLFORGE_OVERLAP_WINDOWS_H_INCLUDED

#include "clock.h"
#include "overlap_collectives.h"

/* What a window runs: the call, the computation, MPI_Wait. */
struct work {
    const struct collective *collective; /* NULL: only computation */
    long count;
    int order; /* 0: only communication */
};

/* Seconds of a window. */
struct times {
    double total; /* max(end) - min(start) over the ranks */
    double call;  /* this and wait: of the rank with the longest call + wait */
    double wait;
    double comp; /* of the slowest rank */
};

struct windows {
    struct clock clock;
    double lead; /* seconds from the agreement on a start to the start */
    int late;    /* windows that were discarded so far */
};

/* Collective, as all in here. */
void windows_create(struct windows *windows);
void windows_free(struct windows *windows);

/*
 * Runs n works in turn, `rounds` times after a round that is not counted, and returns how many
 * rounds were started in time: fewer where that fails too often, 1 at least.
 *
 * shortest: about the seconds of the shortest work, by which a start may be late in proportion.
 * name: of the step, for the watchdog. found, on rank 0: [rounds * n], round by round.
 */
int windows_run(struct windows *windows, const struct work *works, int n, int rounds,
                double shortest, const char *name, struct times *found);

#endif
