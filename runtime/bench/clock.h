/*
 * One clock for all ranks: that of rank 0 (Denis, Jaeger, Jeannot and Reynier, 2022, section 4.2).
 *
 * Every rank reads CLOCK_MONOTONIC. Processes of one running kernel (same boot id and time
 * namespace, whatever the host name) share it and form a clock domain. One rank of each other
 * domain compares its clock with rank 0's by round trips, of which the shortest is used. It
 * broadcasts the result in its domain. For a meeting time in the future, the line through the first
 * and the newest comparison is extrapolated. For the time of a past call, the line between the
 * comparisons before and after it is interpolated. All times are in seconds.
 */
#ifndef COLLFORGE_BENCH_CLOCK_H_INCLUDED
#define COLLFORGE_BENCH_CLOCK_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>

/* ---- pure arithmetic ------------------------------------------------------------------------- */

/* One round trip: sent and received on the reference clock, remote on the other clock in
 * between. */
struct clock_exchange {
    double sent;
    double remote;
    double received;
};

/* At reference time `reference` the other clock was ahead by offset, with at most this error. */
struct clock_point {
    double reference;
    double offset;
    double error;
};

/* The other clock at reference time t: t + offset + drift (t - reference). */
struct clock_line {
    double reference;
    double offset;
    double drift;
};

/* The estimate of the exchange with the shortest round trip; the error is half of that. n >= 1. */
struct clock_point clock_estimate(const struct clock_exchange *exchanges, int n);

/*
 * The line from newest on, for later times. The drift is used only if it is known to 1e-4, more
 * than any quartz drifts: the points must be far enough apart. Otherwise extrapolation would
 * amplify their errors.
 */
struct clock_line clock_extrapolation(const struct clock_point *first,
                                      const struct clock_point *newest);
/* The line through both points, for times between them. */
struct clock_line clock_interpolation(const struct clock_point *before,
                                      const struct clock_point *after);

double clock_to_local(const struct clock_line *line, double reference);
double clock_to_reference(const struct clock_line *line, double local);

/* ---- between ranks --------------------------------------------------------------------------- */

struct clock {
    MPI_Comm comm;        /* all ranks */
    MPI_Comm domain_comm; /* the ranks of this rank's clock domain */
    int leader;           /* the lowest rank of the domain */
    int *leaders;         /* [ndomains] the leader of each domain; rank 0 is the first */
    int ndomains;
    double origin; /* subtracted from CLOCK_MONOTONIC on all ranks, for precision */
    struct clock_point first;
    struct clock_point newest;
    struct clock_line line; /* the extrapolation */
};

/* Finds the clock domains and compares the clocks. Collective. alone: assume that no two ranks
 * share a clock. */
void clock_create(struct clock *clock, MPI_Comm comm, bool alone);
/* Compares the clocks again. Collective; does nothing in a single domain. */
void clock_compare(struct clock *clock);
void clock_free(struct clock *clock);

/* This rank's own clock. */
double clock_local(const struct clock *clock);
/* Sleeps, then polls until the reference clock reaches this time. Returns the local time
 * afterwards. */
double clock_wait(const struct clock *clock, double reference);
/* The largest error of a comparison on any rank. Collective. */
double clock_error(const struct clock *clock);

#endif
