/*
 * The computation that is to overlap with communication: a square matrix product of its own on each
 * OpenMP thread. No MPI in here.
 */
#ifndef COLLFORGE_OVERLAP_COMPUTE_H_INCLUDED
#define COLLFORGE_OVERLAP_COMPUTE_H_INCLUDED

#include "overlap_search.h"

enum { COMPUTE_MOST_ORDER = 2048, COMPUTE_FIRST_ORDER = 64, COMPUTE_MOST_PRODUCTS = 1000 };

/* Makes each thread's matrices, of at most this order; 0 if memory is out. Not timed. */
int compute_prepare(int order);
/* One product of this order, which is prepared, on every thread; returns when the slowest has
 * ended. */
void compute(int order);
/* The median time of so many products, at most COMPUTE_MOST_PRODUCTS, after one that is not
 * counted; 0 if memory is out. */
double compute_median(int order, int products);
/* The search for the order whose product takes so long; it tries order `first` first. */
struct search_goal compute_goal(double seconds, long first);
void compute_free(void);

#endif
