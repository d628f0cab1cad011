#include "serve/kept.h"

#include <stdlib.h>
#include <string.h>

#include "comm/usage.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "data/tmpbuf.h"
#include "serve/guard.h"

void cf_kept_free_types(struct cf_kept *self) {
    for (int i = 0; i < 2; i++) {
        if (self->own[i] != MPI_DATATYPE_NULL) {
            (void)PMPI_Type_free(&self->own[i]);
        }
    }
}

/* Whether the choice serves this call: MPI_SUCCESS or CF_DECLINED, on all ranks alike. The guard
 * has trials of its own here, which a start does not see: where this ends differs between ranks. */
static int go_on_with_trial(struct cf_kept *self, struct cf_call *call) {
    struct cf_state *state = self->call.state;
    const int64_t bytes = self->found.bytes;
    if (!cf_guard_tries(state, self->choice, bytes, false)) {
        return cf_guard_dropped(state, self->choice, bytes) ? CF_DECLINED : MPI_SUCCESS;
    }
    CF_TRY(cf_guard_wait(state, self->choice, bytes, call));
    return cf_guard_begin(state, self->choice, bytes, false, call);
}

int cf_kept_run(struct cf_kept *self) {
    struct cf_state *state = self->call.state;
    const struct cf_choice *choice = self->choice;
    struct cf_args hidden = self->args;
    struct cf_call call = {0};
    int err = MPI_SUCCESS;
    hidden.comm = state->comm.layout.order_comm;
    const bool exchanges = cf_collectives[choice->variant->collective].sized == CF_SIZED_EXCHANGED;
    if (exchanges) {
        err = cf_settle_exchanged(state, &choice, &hidden);
    } else if (self->found.on_trial) {
        err = go_on_with_trial(self, &call);
    }
    if (cf_runtime.counts) {
        cf_usage_started(err == MPI_SUCCESS);
    }
    err = err == MPI_SUCCESS ? cf_run_settled(state, choice, &self->args) : err;
    if (err == CF_DECLINED && (exchanges || self->found.on_trial)) {
        err = self->native(&hidden, self->is_large ? &self->large : NULL);
    }
    cf_note(&err, cf_guard_end(&call));
    cf_tmpbufs_trim(&state->comm.tmpbufs);
    return err == MPI_ERR_NO_MEM ? cf_raise(self->args.comm, err) : err;
}

void cf_kept_free(struct cf_kept *self) {
    for (int i = 0; i < self->narrays; i++) {
        free(self->arrays[i]);
    }
    free(self);
}

void cf_kept_discard(struct cf_kept *self) {
    cf_kept_free_types(self);
    cf_kept_free(self);
}

/* Not MPI_Type_dup, which calls back the program for each attribute of the type, and so does its
 * freeing. Returns an MPI error class. */
static int keep_type(MPI_Datatype *type, MPI_Datatype *own) {
    /* The exchange of sizes tells all ranks of an illegal one. */
    if (*type == MPI_DATATYPE_NULL || cf_type_is_predefined(*type) || cf_type_size(*type) < 0) {
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Type_contiguous(1, *type, own));
    *type = *own;
    return PMPI_Type_commit(own);
}

/* Keeps the types of the sides that are significant on this rank. */
static int keep_types(struct cf_kept *self, int collective, const struct cf_layout *layout) {
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
static void *allocate(struct cf_kept *self, size_t bytes) {
    void *array = malloc(bytes);
    if (array == NULL) {
        self->short_of_memory = true;
    } else {
        self->arrays[self->narrays++] = array;
    }
    return array;
}

/* NULL of NULL. */
static void *copy_of(struct cf_kept *self, const void *array, size_t bytes) {
    void *copy = array == NULL ? NULL : allocate(self, bytes);
    if (copy != NULL) {
        memcpy(copy, array, bytes);
    }
    return copy;
}

#define KEEP(array) ((array) = copy_of(self, array, (size_t)size * sizeof *(array)))

/* Large counts, which become those of self->args, too, or plain ones. */
static void keep_counts(struct cf_kept *self, const int **counts, const MPI_Count **large,
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
static int keep_arrays(struct cf_kept *self, int collective, const struct cf_layout *layout) {
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

int cf_kept_make(struct cf_state *state, const struct cf_choice *choice,
                 const struct cf_starting *what, struct cf_kept **out) {
    const struct cf_layout *layout = &state->comm.layout;
    struct cf_kept *self = calloc(1, sizeof *self);
    *out = self;
    if (self == NULL) {
        return cf_raise(what->args->comm, MPI_ERR_NO_MEM);
    }
    *self = (struct cf_kept){.call = {.state = state, .collective = -1},
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
        cf_kept_discard(self);
        *out = NULL;
    }
    return err;
}
