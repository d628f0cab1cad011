/* What the parts of the runtime know of its state. */
#ifndef COLLFORGE_RUNTIME_H_INCLUDED
#define COLLFORGE_RUNTIME_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Tells the compiler, too, that a variable is not exported: one load less. */
#define CF_HIDDEN __attribute__((visibility("hidden")))

/* Of a function: stays out of its caller, which often does without it and then saves no registers.
 */
#define CF_APART __attribute__((noinline))

enum cf_mode {
    CF_MODE_OFF,       /* every collective is native */
    CF_MODE_UNSTARTED, /* native; MPI_Init has not come by */
    CF_MODE_ON,
    CF_MODE_OBSERVED, /* calls are counted or logged, too */
};

struct cf_runtime {
    enum cf_mode mode;
    bool tuned_only; /* no layout is needed where nothing is tuned */
    int64_t memory;  /* COLLFORGE_MEMORY: bytes of temporaries of a process */
    bool raised;     /* to MPI_THREAD_MULTIPLE, by us: the program asked for less (this rank) */
};

enum { CF_USUAL_MEMORY = 64 << 20 };

/* Changes only inside MPI_Init and MPI_Finalize, or cf_runtime_start, alike on all ranks. */
CF_HIDDEN extern struct cf_runtime cf_runtime;

/* Whether it holds on all ranks of the communicator. Collective; an error of MPI counts as no. */
bool cf_comm_agree(MPI_Comm comm, bool holds);
/* The same over MPI_COMM_WORLD. */
bool cf_all_agree(bool holds);

#endif
