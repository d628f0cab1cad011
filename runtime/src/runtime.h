/* What the parts of the runtime know of its state. */
#ifndef COLLFORGE_RUNTIME_H_INCLUDED
#define COLLFORGE_RUNTIME_H_INCLUDED

#include <stdbool.h>

struct cf_runtime {
    bool active;   /* off: every collective goes straight to PMPI */
    bool observed; /* calls are counted or logged */
};

/* Changes only inside MPI_Init and MPI_Finalize, alike on all ranks. */
extern struct cf_runtime cf_runtime;

/* Whether it holds on all ranks. Collective over MPI_COMM_WORLD; an error of MPI counts as no. */
bool cf_all_agree(bool holds);

#endif
