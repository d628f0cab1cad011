/*
 * The OpenMP threads that a program leaves idle while it calls a collective
 * (papers/thread-split-rank-shift, section 2). They are those of the program's own OpenMP runtime:
 * this library brings none, and asks for threads by the entry points that libgomp has and LLVM's
 * libomp offers, too. A program without OpenMP has one thread.
 */
#ifndef COLLFORGE_THREADS_H_INCLUDED
#define COLLFORGE_THREADS_H_INCLUDED

/*
 * How many threads of this process may be inside MPI at once: what OMP_NUM_THREADS and the cores
 * that the process may run on allow; 1 below MPI_THREAD_MULTIPLE and without OpenMP.
 */
int cf_threads_allowed(void);

/*
 * Calls work(argument, i) for 0 <= i < n, by up to so many threads at once, each taking every k-th
 * in ascending order; by the caller alone inside a parallel region, in a thread that is not MPI's
 * main one, and where the threads have become fewer meanwhile. Returns the first error class by i,
 * else MPI_SUCCESS.
 *
 * Ranks may differ in how many threads they take: each i has a communicator of its own, and a rank
 * that comes to it late keeps the others waiting, not from ending.
 */
int cf_threads_run(int (*work)(void *argument, int i), void *argument, int n, int threads);

#endif
