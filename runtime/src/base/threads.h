/*
 * The OpenMP threads that a program leaves idle while it calls a collective (Mahéo, Carribault,
 * Pérache and Jalby, 2014, section 2). They belong to the program's own OpenMP runtime: GCC's,
 * LLVM's, or one that has the entry points of either. This library brings none. A program without
 * OpenMP, or whose OpenMP runtime is in a static library, has one thread.
 */
#ifndef COLLFORGE_THREADS_H_INCLUDED
#define COLLFORGE_THREADS_H_INCLUDED

#include <stdbool.h>

/* Whether this process has an OpenMP runtime now. */
bool cf_threads_are_there(void);

/*
 * How many threads of this process may call MPI at once: the minimum of OMP_NUM_THREADS and the
 * process's cores; 1 below MPI_THREAD_MULTIPLE and without OpenMP.
 */
int cf_threads_allowed(void);

/*
 * Calls work(argument, i) for 0 <= i < n, in up to `threads` threads, each taking every k-th i in
 * ascending order. Only the caller works inside a parallel region, outside MPI's main thread, and
 * if no other thread is left. Returns MPI_SUCCESS, or the error of the lowest i that failed; all
 * below it have run, and of those above it some may not have.
 *
 * Ranks may use different numbers of threads. Each i has a communicator of its own, so a rank that
 * reaches it late delays the others but cannot deadlock.
 */
int cf_threads_run(int (*work)(void *argument, int i), void *argument, int n, int threads);

/* From now on only the caller works. In MPI_Finalize, where a program's callbacks may still call
 * collectives, MPICH is no longer safe for threads. */
void cf_threads_end(void);

#endif
