/* Failures that end the job, and the watchdog that names the case in which a rank hangs or
 * crashes. */
#ifndef COLLFORGE_BENCH_REPORT_H_INCLUDED
#define COLLFORGE_BENCH_REPORT_H_INCLUDED

#include <stddef.h>

/*
 * The driver's exit codes. A launcher may replace them (Hydra by 1, when a rank ends before
 * MPI_Finalize). The output is complete if and only if its last record is "end".
 */
enum exit_code {
    EXIT_VERIFIED = 0,
    EXIT_WRONG = 1,   /* a verification failed */
    EXIT_USAGE = 2,   /* bad options or cases: nothing ran */
    EXIT_HANG = 3,    /* a call did not return in time */
    EXIT_TROUBLE = 4, /* out of memory, a full disk, or an MPI error outside the calls under test */
};

/* Prints the message and ends the job on all ranks. */
__attribute__((noreturn, format(printf, 2, 3))) void fail(enum exit_code code, const char *format,
                                                          ...);

/* Ends the job if an MPI call of the driver itself failed. */
void must(int err, const char *what);

/* Never NULL: end the job when out of memory. */
void *xmalloc(size_t size);
void *xrealloc(void *memory, size_t size);

/* From now on a rank that crashes reports its current step. timeout: seconds that a step may
 * take. */
void watchdog_start(int rank, int timeout);
/* Begins a step named what, which must stay allocated. */
void watchdog_step(const char *what);
void watchdog_stop(void);

#endif
