/*
 * A thread that makes nonblocking collectives go on while the program computes (COLLFORGE_PROGRESS;
 * Denis, Jaeger, Jeannot and Reynier, 2022, section 7: `thread` shares the cores of its process,
 * `thread:CORE` has one to itself). It sleeps while no collective of a variant is under way.
 */
#ifndef COLLFORGE_PROGRESS_THREAD_H_INCLUDED
#define COLLFORGE_PROGRESS_THREAD_H_INCLUDED

#include <stdbool.h>

/* Whether this process's environment asks for one: then MPI has to be initialised with
 * MPI_THREAD_MULTIPLE. */
bool cf_progress_thread_wanted(void);

/*
 * After MPI_Init. Starts the thread if it is wanted: it calls poll while that returns true, from
 * each wake on. alone: nobody else does so while the program waits. False if there is none, after a
 * warning where the environment asks for one.
 */
bool cf_progress_thread_begin(bool (*poll)(void), bool alone);
void cf_progress_thread_wake(void);
/* Returns when it has ended. Does nothing if there is none. */
void cf_progress_thread_end(void);

#endif
