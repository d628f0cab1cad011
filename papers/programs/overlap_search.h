/*
 * The size at which something takes a wanted time (Denis, Jaeger, Jeannot and Reynier, 2022,
 * section 5.1): by iterations with quadratic interpolation. No MPI in here.
 */
#ifndef COLLFORGE_OVERLAP_SEARCH_H_INCLUDED
#define COLLFORGE_OVERLAP_SEARCH_H_INCLUDED

#include <stdbool.h>

struct search_goal {
    double seconds;   /* that the size is to take */
    double tolerance; /* relative, e.g. 0.1 */
    double order;     /* of large sizes' time in the size: 1 linear, 3 a matrix product */
    long first;       /* size that is tried first */
    long least;       /* >= 1 */
    long most;
    int calls; /* at most so many sizes are tried; >= 1 */
};

/* For the goals of the program: section 5.1, and enough sizes for times that are not smooth. */
#define SEARCH_TOLERANCE 0.1
enum { SEARCH_CALLS = 24, SEARCH_TRIES = 5 };

struct search_found {
    long size;      /* the best one that was tried */
    double seconds; /* what it took */
    int calls;
    bool converged; /* within the tolerance */
};

/* Seconds that a size takes, > 0. */
typedef double search_cost(long size, void *context);

struct search_found search_size(const struct search_goal *goal, search_cost *cost, void *context);

/* How often something that takes so long is timed: for about a second, 3 to `most` times. */
int search_rounds(double seconds, int most);

/* Sorts the values. n >= 1. */
double search_median(double *values, int n);

#endif
