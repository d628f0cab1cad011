/* Failures that end the job, and the watchdog that names the case in which it hangs or crashes. */
#ifndef COLLFORGE_BENCH_REPORT_H_INCLUDED
#define COLLFORGE_BENCH_REPORT_H_INCLUDED

#include <stddef.h>

/*
 * The driver's exit codes. A launcher may replace them (Hydra, by 1, when a rank ends before
 * MPI_Finalize): the output is whole if and only if it ends with the record "end".
 */
enum exit_code {
    EXIT_VERIFIED = 0,
    EXIT_WRONG = 1,   /* a verification failed */
    EXIT_USAGE = 2,   /* bad options or cases: nothing ran */
    EXIT_HANG = 3,    /* a call did not come back in time */
    EXIT_TROUBLE = 4, /* no memory, no disk, an error of MPI outside the calls under test */
};

/* Prints the message and ends the job on all ranks. */
__attribute__((noreturn, format(printf, 2, 3))) void fail(enum exit_code code, const char *format,
                                                          ...);

/* Ends the job when an MPI call of the driver's own failed. */
void must(int err, const char *what);

/* Memory or the end of the job. */
void *xmalloc(size_t size);
void *xrealloc(void *memory, size_t size);

/* From now on a rank that crashes says so, with what it did last. timeout: seconds a step may take.
 */
void watchdog_start(int rank, int timeout);
/* A new step begins; what (it must live on) names it. */
void watchdog_step(const char *what);
void watchdog_stop(void);

#endif
