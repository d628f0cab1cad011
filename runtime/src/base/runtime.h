/* The state of the runtime. */
#ifndef COLLFORGE_RUNTIME_H_INCLUDED
#define COLLFORGE_RUNTIME_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Not exported. Declared to the compiler as well, which saves a load per access. */
#define CF_HIDDEN __attribute__((visibility("hidden")))

/* Keeps a function out of its caller, whose fast path then saves no registers. */
#define CF_APART __attribute__((noinline))

enum cf_mode {
    CF_MODE_OFF, /* every collective is native; also before MPI_Init */
    CF_MODE_ON,
    CF_MODE_COUNTED,  /* as CF_MODE_ON, and calls of tuned collectives are counted */
    CF_MODE_OBSERVED, /* as CF_MODE_ON, and all calls are counted or logged */
};

/* COLLFORGE_GUARD: whether variants that were not measured on a layout are tried first there. */
enum cf_guard {
    CF_GUARD_OFF,
    CF_GUARD_ON,
    CF_GUARD_REDUCTIONS, /* also those of floats, whose results then differ in their last bits */
};

struct cf_runtime {
    enum cf_mode mode;
    bool tuned_only; /* communicators without tuned collectives need no layout */
    int64_t memory;  /* COLLFORGE_MEMORY: bytes of temporaries per process */
    enum cf_guard guard;
    double guard_after; /* COLLFORGE_GUARD_AFTER: seconds in native calls before a trial */
    bool reproducible;  /* COLLFORGE_REPRODUCIBLE: reductions in one order for all sizes */
    bool split_ops;     /* COLLFORGE_SPLIT_OPS: the program's ops get parts of vectors */
    bool check_ops;     /* COLLFORGE_CHECK_OPS */
    bool nonblocking;   /* COLLFORGE_NONBLOCKING, and the MPI library has a hook for it */
    bool awaits_ends;   /* calls are observed, or variants may be on trial */
    bool counts;        /* this rank counts what served its calls (comm/usage.h) */
    uint64_t unreached; /* collectives, by bit, whose calls pass this library by on some rank */
    uint64_t unstarted; /* the same of their nonblocking calls */
    bool raised; /* the library, not the program, asked for MPI_THREAD_MULTIPLE (this rank) */
    int asked;   /* then the level that the program asked for */
};

enum { CF_USUAL_MEMORY = 64 << 20 };

/* Changes only in MPI_Init and MPI_Finalize. Equal on all ranks, except counts, raised and
 * asked. */
CF_HIDDEN extern struct cf_runtime cf_runtime;

/* Whether holds is true on all ranks of the communicator. Collective; an MPI error counts as
 * false. */
bool cf_comm_agree(MPI_Comm comm, bool holds);
/* The same over MPI_COMM_WORLD. */
bool cf_all_agree(bool holds);

#endif
