#include "serve/large.h"

#include <stdlib.h>

#include "base/runtime.h"
#include "comm/comm.h"
#include "comm/observe.h"
#include "start/start.h"

#if MPI_VERSION >= 4

static const struct cf_choice *choose(int collective, const struct cf_args *args,
                                      struct cf_call *call) {
    if (cf_collectives[collective].sized == CF_SIZED_MEAN) {
        return cf_choose_mean(collective, args->comm, args->recvcounts, args->recvtype, call);
    }
    return cf_choose_unsized(collective, args->comm, call);
}

int cf_attempt_large(int collective, const struct cf_args *args, const MPI_Count *sendcounts,
                     const MPI_Count *recvcounts, struct cf_call *call) {
    struct cf_args narrow = *args;
    struct cf_state *state = NULL;
    const struct cf_choice *choice = NULL;
    int *memory = NULL;

    *call = (struct cf_call){0};
    if (cf_runtime.mode < CF_MODE_ON) {
        return CF_DECLINED;
    }
    int err = cf_state_of(args->comm, &state);
    const int size = err == MPI_SUCCESS ? state->comm.layout.size : 0;
    if (err == MPI_SUCCESS && size > 0) {
        memory = malloc(2 * (size_t)size * sizeof *memory);
        err = memory == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    if (err == MPI_ERR_NO_MEM) {
        return cf_raise(args->comm, err);
    }
    if (memory == NULL) {
        return CF_DECLINED;
    }
    /* Counts are significant at the root only, and send counts only if not in place. */
    if (!cf_collectives[collective].rooted || args->root == state->comm.layout.rank) {
        narrow.recvcounts = cf_narrow_all(recvcounts, memory, size);
        if (args->sendbuf != MPI_IN_PLACE) {
            narrow.sendcounts = cf_narrow_all(sendcounts, memory + size, size);
        }
    }
    choice = choose(collective, &narrow, call);
    if (cf_collectives[collective].sized == CF_SIZED_EXCHANGED) {
        cf_sized(collective, &narrow, call);
    }
    err = choice == NULL ? CF_DECLINED : cf_attempt(choice, collective, &narrow, call);
    free(memory);
    return err;
}

void cf_count_mean_large(int collective, MPI_Comm comm, const MPI_Count *counts,
                         MPI_Datatype type) {
    struct cf_state *state = NULL;
    if (cf_observe_counts() && cf_state_of(comm, &state) == MPI_SUCCESS) {
        const int size = state->comm.layout.size;
        int *memory = malloc((size_t)size * sizeof *memory);
        cf_count_mean(collective, comm, memory == NULL ? NULL : cf_narrow_all(counts, memory, size),
                      type);
        free(memory);
    }
}

#endif
