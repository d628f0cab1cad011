#include "serve/nonblocking.h"

#include "comm/observe.h"
#include "serve/call_bytes.h"

static void count_call(int collective, MPI_Comm comm, int count, MPI_Datatype type,
                       const int *counts) {
    struct cf_state *state = NULL;
    if (!cf_observe_counts() || cf_state_of(comm, &state) != MPI_SUCCESS ||
        state->comm.layout.size == 0)
        return;
    const int64_t bytes = cf_call_bytes(collective, count, type, counts, state->comm.layout.size);
    if (bytes >= 0)
        cf_observe_nonblocking(state, collective, bytes);
}

void cf_count(int collective, MPI_Comm comm, int count, MPI_Datatype type) {
    count_call(collective, comm, count, type, NULL);
}

void cf_count_mean(int collective, MPI_Comm comm, const int *counts, MPI_Datatype type) {
    if (counts != NULL)
        count_call(collective, comm, 0, type, counts);
}

void cf_count_unsized(int collective, MPI_Comm comm) {
    count_call(collective, comm, 0, MPI_DATATYPE_NULL, NULL);
}
