/*
 * One clock for all ranks: that of rank 0 (the method of papers/nonblocking-overlap-methodology,
 * section 4.2).
 *
 * Every rank reads CLOCK_MONOTONIC. Processes of one running kernel (same boot id and time
 * namespace, whatever their hosts are called) share it. Of each other such domain one rank compares
 * its clock with rank 0's in round trips, of which the shortest counts, and the others of the
 * domain take its result. To meet at a time in the future, the line through the first and the
 * newest comparison is extrapolated; to date a call afterwards, the line between the comparisons
 * before and after it is interpolated. All times are seconds.
 */
#ifndef COLLFORGE_BENCH_CLOCK_H_INCLUDED
#define COLLFORGE_BENCH_CLOCK_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>

/* ---- pure arithmetic ------------------------------------------------------------------------- */

/* One round trip: sent and received by the reference's clock, remote by the other one in between.
 */
struct clock_exchange {
    double sent;
    double remote;
    double received;
};

/* What was found: at reference time `reference` the other clock was ahead by offset, to within
 * error. */
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

/* From the exchange with the shortest round trip; the error is half of that. n >= 1. */
struct clock_point clock_estimate(const struct clock_exchange *exchanges, int n);

/*
 * The line from newest on, for times beyond it. The drift between the points counts only if they
 * are far enough apart to know it to 1e-4, which no quartz exceeds anyway: else extrapolating would
 * amplify their error.
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
    MPI_Comm domain_comm; /* the ranks with whom this one shares its clock */
    int leader;           /* the lowest of them */
    int *leaders;         /* [ndomains] of all domains; rank 0 is the first */
    int ndomains;
    double origin; /* subtracted from CLOCK_MONOTONIC on all ranks, to keep digits */
    struct clock_point first;
    struct clock_point newest;
    struct clock_line line; /* the extrapolation */
};

/* Finds the domains and compares the clocks. Collective. alone: believe that no two ranks share a
 * clock. */
void clock_create(struct clock *clock, MPI_Comm comm, bool alone);
/* Compares the clocks again. Collective; nothing to do where there is one domain. */
void clock_compare(struct clock *clock);
void clock_free(struct clock *clock);

/* This rank's own clock. */
double clock_local(const struct clock *clock);
/* Sleeps, then spins until the reference clock shows this time; returns the local time at which it
 * left. */
double clock_wait(const struct clock *clock, double reference);
/* The largest error of a comparison on any rank. Collective. */
double clock_error(const struct clock *clock);

#endif
