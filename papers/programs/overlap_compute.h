/*
 * The computation that is to overlap with communication: a square matrix product of its own on each
 * OpenMP thread. No MPI in here.
 */
#ifndef COLLFORGE_OVERLAP_COMPUTE_H_INCLUDED
#define COLLFORGE_OVERLAP_COMPUTE_H_INCLUDED

enum { COMPUTE_MOST_ORDER = 2048 };

/* Makes each thread's matrices, of at most this order; 0 if memory is out. Not timed. */
int compute_prepare(int order);
/* One product of this order, which is prepared, on every thread; returns when the slowest has
 * ended. */
void compute(int order);
/* Computes, and returns the seconds it took. */
double compute_seconds(int order);
void compute_free(void);

#endif
