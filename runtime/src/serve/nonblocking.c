#include "serve/nonblocking.h"

#include <stdlib.h>
#include <string.h>

#include "comm/under_way.h"
#include "comm/usage.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "data/tmpbuf.h"
#include "serve/guard.h"

enum { MOST_ARRAYS = 8 };

struct started {
    struct cf_under_way call; /* first */
    const struct cf_choice *choice;
    struct cf_args args;
    MPI_Datatype own[2];       /* types like the program's, which it may free */
    void *arrays[MOST_ARRAYS]; /* copies of its counts and displacements */
    int narrays;
    bool short_of_memory;
    bool is_large;
    struct cf_large_counts large;
    cf_native_call *native; /* NULL: the choice is settled */
};

static void free_types(struct started *self) {
    for (int i = 0; i < 2; i++) {
        if (self->own[i] != MPI_DATATYPE_NULL) {
            (void)PMPI_Type_free(&self->own[i]);
        }
    }
}

static int run(struct cf_under_way *call) {
    struct started *self = (struct started *)call;
    struct cf_state *state = call->state;
    struct cf_args hidden = self->args;
    int err = MPI_SUCCESS;
    if (self->native != NULL) {
        hidden.comm = state->comm.layout.order_comm;
        err = cf_settle_exchanged(state, &self->choice, &hidden);
        if (cf_runtime.counts) {
            cf_usage_started(err == MPI_SUCCESS);
        }
    }
    err = err == MPI_SUCCESS ? cf_run_settled(state, self->choice, &self->args) : err;
    if (err == CF_DECLINED && self->native != NULL) {
        err = self->native(&hidden, self->is_large ? &self->large : NULL);
    }
    cf_tmpbufs_trim(&state->comm.tmpbufs);
    free_types(self);
    return err == MPI_ERR_NO_MEM ? cf_raise(self->args.comm, err) : err;
}

/* MPICH calls it with its lock held: calls of MPI would end in an assertion. */
static void release(struct cf_under_way *call) {
    struct started *self = (struct started *)call;
    for (int i = 0; i < self->narrays; i++) {
        free(self->arrays[i]);
    }
    free(self);
}

/* Not MPI_Type_dup, which calls back the program for each attribute of the type, and so does its
 * freeing. Returns an MPI error class. */
static int keep_type(MPI_Datatype *type, MPI_Datatype *own) {
    if (cf_type_is_predefined(*type)) {
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Type_contiguous(1, *type, own));
    *type = *own;
    return PMPI_Type_commit(own);
}

/* Keeps the types of the sides that are significant on this rank. */
static int keep_types(struct started *self, int collective, const struct cf_layout *layout) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    struct cf_args *args = &self->args;
    if (info->part == NULL) {
        return MPI_SUCCESS;
    }
    const struct cf_part part = info->part(layout->rank, args->root, layout->size);
    const bool one_type = args->sendtype == args->recvtype;
    const bool sends = part.in_blocks > 0 && args->sendbuf != MPI_IN_PLACE;
    if (sends) {
        CF_TRY(keep_type(&args->sendtype, &self->own[0]));
    }
    if (sends && one_type) {
        args->recvtype = args->sendtype;
    } else if (part.out_blocks > 0 && args->recvbuf != MPI_IN_PLACE) {
        CF_TRY(keep_type(&args->recvtype, &self->own[1]));
        args->sendtype = one_type ? args->recvtype : args->sendtype;
    }
    return MPI_SUCCESS;
}

/* Memory that lives as long as the call. */
static void *allocate(struct started *self, size_t bytes) {
    void *array = malloc(bytes);
    if (array == NULL) {
        self->short_of_memory = true;
    } else {
        self->arrays[self->narrays++] = array;
    }
    return array;
}

/* NULL of NULL. */
static void *copy_of(struct started *self, const void *array, size_t bytes) {
    void *copy = array == NULL ? NULL : allocate(self, bytes);
    if (copy != NULL) {
        memcpy(copy, array, bytes);
    }
    return copy;
}

#define KEEP(array) ((array) = copy_of(self, array, (size_t)size * sizeof *(array)))

/* Large counts, which become those of self->args, too, or plain ones. */
static void keep_counts(struct started *self, const int **counts, const MPI_Count **large,
                        int size) {
    if (!self->is_large) {
        KEEP(*counts);
    } else if (*large != NULL) {
        int *narrow = allocate(self, (size_t)size * sizeof *narrow);
        KEEP(*large);
        *counts = narrow == NULL || *large == NULL ? NULL : cf_narrow_all(*large, narrow, size);
    }
}

/* MPI forbids changes of the arrays before the end, but programs that free them run natively
 * (mpi4py's casts of large counts). Only arrays that are significant here may be read. Returns an
 * MPI error class. */
static int keep_arrays(struct started *self, int collective, const struct cf_layout *layout) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    struct cf_args *args = &self->args;
    const int size = layout->size;
    if (info->sized != CF_SIZED_MEAN && info->sized != CF_SIZED_EXCHANGED) {
        return MPI_SUCCESS;
    }
    const struct cf_part part = info->part(layout->rank, args->root, size);
    if (part.in_blocks > 0 && args->sendbuf != MPI_IN_PLACE) {
        keep_counts(self, &args->sendcounts, &self->large.sendcounts, size);
        KEEP(args->sdispls);
        KEEP(args->large_sdispls);
    }
    if (info->sized == CF_SIZED_MEAN || (part.out_blocks > 0 && args->recvbuf != MPI_IN_PLACE)) {
        keep_counts(self, &args->recvcounts, &self->large.recvcounts, size);
        KEEP(args->rdispls);
        KEEP(args->large_rdispls);
    }
    return self->short_of_memory ? MPI_ERR_NO_MEM : MPI_SUCCESS;
}

/* What a wrapper passes on; counts: NULL, or of all ranks. */
struct starting {
    const struct cf_args *args;
    int collective;
    int count;
    MPI_Datatype type;
    const int *counts;
    cf_native_call *native;              /* NULL: the size is known */
    const struct cf_large_counts *large; /* NULL: args has the counts */
};

static int start(struct cf_state *state, const struct cf_choice *choice,
                 const struct starting *what, MPI_Request *request) {
    const struct cf_layout *layout = &state->comm.layout;
    struct started *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return cf_raise(what->args->comm, MPI_ERR_NO_MEM);
    }
    *self = (struct started){.call = {.run = run, .free = release, .state = state},
                             .choice = choice,
                             .args = *what->args,
                             .own = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL},
                             .is_large = what->large != NULL,
                             .native = what->native};
    if (self->is_large) {
        self->large = *what->large;
    }
    int err = keep_arrays(self, what->collective, layout);
    err = err == MPI_SUCCESS ? keep_types(self, what->collective, layout)
                             : cf_raise(what->args->comm, err);
    if (err != MPI_SUCCESS) {
        free_types(self);
        release(&self->call);
        return err;
    }
    return cf_under_way_start(&self->call, request);
}

/* The state of a communicator that variants may serve now; else NULL. */
static struct cf_state *state_for(MPI_Comm comm, int collective) {
    struct cf_state *state = NULL;
    const bool may = cf_runtime.nonblocking && cf_runtime.mode >= CF_MODE_ON &&
                     cf_state_of(comm, &state) == MPI_SUCCESS && state->comm.layout.size > 0;
    return may ? state : NULL;
}

static int attempt(struct cf_state *state, const struct starting *what, MPI_Request *request) {
    const int64_t bytes = cf_call_bytes(what->collective, what->count, what->type, what->counts,
                                        state->comm.layout.size);
    const struct cf_choice *choice = cf_choose_bytes(state, what->collective, bytes);
    const bool serves =
        choice != NULL && !cf_guard_dropped(state, choice, bytes) &&
        !cf_guard_tries(state, choice, bytes, false) &&
        cf_settle_start(state, choice, what->collective, bytes, what->args) == MPI_SUCCESS;
    if (choice != NULL && cf_runtime.counts) {
        cf_usage_started(serves);
    }
    return serves ? start(state, choice, what, request) : CF_DECLINED;
}

int cf_start(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
             int count, MPI_Datatype type) {
    const struct starting what = {.args = args, .collective = collective, .count = count, .type = type};
    struct cf_state *state = state_for(comm, collective);
    return state == NULL ? CF_DECLINED : attempt(state, &what, request);
}

int cf_start_mean(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
                  const int *counts, MPI_Datatype type) {
    const struct starting what = {
        .args = args, .collective = collective, .type = type, .counts = counts};
    struct cf_state *state = counts == NULL ? NULL : state_for(comm, collective);
    return state == NULL ? CF_DECLINED : attempt(state, &what, request);
}

int cf_start_unsized(const struct cf_args *args, MPI_Request *request, int collective,
                     MPI_Comm comm) {
    return cf_start(args, request, collective, comm, 0, MPI_DATATYPE_NULL);
}

int cf_start_exchanged(const struct cf_args *args, MPI_Request *request, int collective,
                       MPI_Comm comm, cf_native_call *native, const struct cf_large_counts *large) {
    const struct starting what = {
        .args = args, .collective = collective, .native = native, .large = large};
    struct cf_state *state = state_for(comm, collective);
    const struct cf_choice *any = state == NULL ? NULL : cf_choose_any(state, collective);
    return any == NULL || state->stage != CF_STAGE_COMPLETE ||
                   state->comm.layout.order_comm == MPI_COMM_NULL || state->comm.order_refused
               ? CF_DECLINED
               : start(state, any, &what, request);
}

#if MPI_VERSION >= 4

int cf_start_large(const struct cf_args *args, MPI_Request *request, int collective, MPI_Comm comm,
                   MPI_Count count, MPI_Datatype type) {
    return cf_start(args, request, collective, comm, cf_narrow(count), type);
}

int cf_start_large_mean(const struct cf_args *args, MPI_Request *request, int collective,
                        MPI_Comm comm, const MPI_Count *counts, MPI_Datatype type) {
    struct cf_state *state = counts == NULL ? NULL : state_for(comm, collective);
    struct cf_args narrow = *args;
    if (state == NULL) {
        return CF_DECLINED;
    }
    const int size = state->comm.layout.size;
    int *all = malloc((size_t)size * sizeof *all);
    if (all == NULL) {
        return cf_raise(comm, MPI_ERR_NO_MEM);
    }
    narrow.recvcounts = cf_narrow_all(counts, all, size);
    const struct starting what = {
        .args = &narrow, .collective = collective, .type = type, .counts = all};
    const int err = attempt(state, &what, request);
    free(all);
    return err;
}

#endif
