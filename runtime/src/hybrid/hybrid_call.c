/* The collectives of collforge_hybrid.h: chooses and runs the variant of a call. */
#include "hybrid/hybrid.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle_table.h"
#include "base/runtime.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "data/unit.h"
#include "serve/dispatch.h"
#include "serve/fast.h"
#include "winners/choice.h"
#include "winners/rules.h"

/* The first variant of a collective, with the first value of each parameter. */
static void choose_default(int collective, struct cf_choice *choice) {
    char why[64] = "";

    for (int v = 0; v < cf_nvariants && choice->variant == NULL; v++) {
        if (cf_variants[v]->collective == collective) {
            const char *family = cf_variants[v]->family;
            (void)cf_choice_parse(family, strlen(family), collective, choice, why, sizeof why);
        }
    }
}

bool cf_hybrid_prepare(struct cf_hybrid *hybrid, bool of_world) {
    struct cf_state *state = hybrid->state;

    hybrid->defaults = calloc((size_t)cf_ncollectives, sizeof *hybrid->defaults);
    if (hybrid->defaults == NULL) {
        return false;
    }
    for (int collective = 0; collective < cf_ncollectives; collective++) {
        if (cf_collectives[collective].hybrid) {
            choose_default(collective, &hybrid->defaults[collective]);
        }
    }
    cf_layout_placement(&state->comm.layout, hybrid->layout_name, sizeof hybrid->layout_name);
    state->layout_name = hybrid->layout_name;
    /* Ranks of another MPI_COMM_WORLD may have other winners. */
    return !of_world || cf_runtime.mode < CF_MODE_ON ||
           cf_rules_find(state->layout_name, &state->comm.layout, &state->rules);
}

/* Checks the arguments that must be equal on all ranks, so the result is equal as well. */
static int check(const struct cf_hybrid *hybrid, int collective, const struct cf_args *args,
                 int64_t *bytes) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    const int size = hybrid->open.size;
    struct cf_unit unit;

    if (args->recvtype == MPI_DATATYPE_NULL || cf_type_size(args->recvtype) < 0) {
        return MPI_ERR_TYPE;
    }
    CF_TRY(cf_unit_of(args->recvtype, &unit));
    if (!unit.dense) {
        return MPI_ERR_TYPE;
    }
    if (info->has_op && args->op == MPI_OP_NULL) {
        return MPI_ERR_OP;
    }
    if (info->has_op && args->sendbuf == MPI_IN_PLACE) {
        return MPI_ERR_BUFFER;
    }
    if (info->rooted && (args->root < 0 || args->root >= size)) {
        return MPI_ERR_ROOT;
    }
    *bytes = cf_call_bytes(collective, args->recvcount, args->recvtype, args->recvcounts, size);
    const int64_t total = args->recvcounts == NULL ? cf_total_bytes(collective, size, *bytes)
                                                   : cf_sum(args->recvcounts, size) * unit.size;
    if (*bytes < 0 || total > CF_MOST_BYTES) {
        return MPI_ERR_COUNT;
    }
    return cf_piece_has(hybrid, args->recvbuf, (size_t)total) ? MPI_SUCCESS : MPI_ERR_BUFFER;
}

/* Checks a call and sets its choice; *choice is NULL if the call moves no data. */
static int choose(struct cf_hybrid *hybrid, int collective, const struct cf_args *args,
                  const struct cf_choice **choice) {
    struct cf_state *state = hybrid->state;
    int64_t bytes = 0;
    int err = CF_DECLINED;

    CF_TRY(check(hybrid, collective, args, &bytes));
    if (*choice == NULL) {
        *choice = cf_choose_bytes(state, collective, bytes);
    }
    if (*choice != NULL && bytes > 0) {
        err = cf_settle(state, *choice, collective, bytes, args);
    }
    if (err == CF_DECLINED) {
        *choice = bytes == 0 ? NULL : &hybrid->defaults[collective];
    }
    return err == CF_DECLINED ? MPI_SUCCESS : err;
}

/* Without data the ranks of the node still synchronise, as collforge_hybrid.h promises. */
static int run(struct cf_hybrid *hybrid, const struct cf_choice *choice,
               const struct cf_args *args) {
    if (choice == NULL) {
        return cf_hybrid_sync(hybrid);
    }
    /* This rank has read what the piece held before; no message of the call may overtake that. */
    atomic_thread_fence(memory_order_seq_cst);
    const int err = choice->variant->run(args, &hybrid->state->comm, choice->parameter);
    cf_tmpbufs_trim(&hybrid->state->comm.tmpbufs);
    return err;
}

/* Whether the call equals the last one except for its buffers and root, and these are legal. */
static bool is_settled(const struct cf_hybrid *hybrid, int collective,
                       const struct cf_choice *asked, const struct cf_args *args) {
    const struct cf_last *last = &hybrid->state->last[collective];
    const int size = hybrid->open.size;

    return last->settled && (asked == NULL || asked == last->choice) && args->recvcounts == NULL &&
           last->count == args->recvcount && last->type == args->recvtype && last->op == args->op &&
           args->root >= 0 && args->root < size &&
           cf_piece_has(hybrid, args->recvbuf,
                        (size_t)cf_total_bytes(collective, size, last->bytes));
}

static void remember(struct cf_last *last, const struct cf_choice *choice,
                     const struct cf_args *args) {
    if (choice != NULL && args->recvcounts == NULL && cf_means_the_same(args->op, args->recvtype)) {
        *last = (struct cf_last){.choice = choice,
                                 .bytes = args->recvcount * cf_type_size(args->recvtype),
                                 .type = args->recvtype,
                                 .count = args->recvcount,
                                 .settled = true,
                                 .op = args->op,
                                 .both = args->recvtype};
    }
}

int cf_hybrid_attempt(struct cf_hybrid *hybrid, const struct cf_choice *choice, int collective,
                      const struct cf_args *args) {
    struct cf_last *last = &hybrid->state->last[collective];

    if (is_settled(hybrid, collective, choice, args)) {
        choice = last->choice;
    } else {
        CF_TRY(choose(hybrid, collective, args, &choice));
        remember(last, choice, args);
    }
    return run(hybrid, choice, args);
}

int cf_hybrid_call(struct collforge_hybrid *hybrid, int collective, struct cf_args *args) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);

    CF_TRY(found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM) : MPI_SUCCESS);
    args->comm = hybrid->comm;
    return cf_hybrid_fail(hybrid->comm, cf_hybrid_attempt(found, NULL, collective, args));
}

/* ---- persistent forms ------------------------------------------------------------------------ */

struct collforge_hybrid_request {
    struct collforge_hybrid *hybrid;
    uint64_t serial; /* of the package: another package may get its address */
    const struct cf_choice *choice;
    struct cf_args args;
    bool owns_type; /* recvtype is a duplicate, because the program may free its own */
    int counts[];   /* copy of the call's, if blocks differ */
};

/* The existing requests: a handle may be a copy of a freed one. */
static struct cf_handle_table live = CF_HANDLE_TABLE_INITIALIZER;

static void free_request(struct collforge_hybrid_request *request) {
    if (request->owns_type) {
        (void)PMPI_Type_free(&request->args.recvtype);
    }
    free(request);
}

/* NULL when out of memory. */
static struct collforge_hybrid_request *new_request(const struct cf_args *args, int size,
                                                    bool has_op) {
    const size_t bytes = args->recvcounts == NULL ? 0 : (size_t)size * sizeof(int);
    struct collforge_hybrid_request *request = malloc(sizeof *request + bytes);

    if (request == NULL) {
        return NULL;
    }
    *request = (struct collforge_hybrid_request){.args = *args};
    if (bytes > 0) {
        memcpy(request->counts, args->recvcounts, bytes);
        request->args.recvcounts = request->counts;
    }
    /* Not with an op: a user's op may recognise its type by the handle. */
    request->owns_type = !has_op && !cf_type_is_predefined(args->recvtype);
    if (request->owns_type &&
        PMPI_Type_dup(args->recvtype, &request->args.recvtype) != MPI_SUCCESS) {
        free(request);
        return NULL;
    }
    return request;
}

int cf_hybrid_init(struct collforge_hybrid *hybrid, int collective, const struct cf_args *args,
                   struct collforge_hybrid_request **request) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);
    const struct cf_choice *choice = NULL;

    *request = NULL;
    CF_TRY(found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM) : MPI_SUCCESS);
    const int err = choose(found, collective, args, &choice);
    if (err != MPI_SUCCESS) {
        return cf_hybrid_fail(hybrid->comm, err);
    }
    struct collforge_hybrid_request *made =
        new_request(args, hybrid->size, cf_collectives[collective].has_op);
    if (made != NULL && !cf_handle_insert(&live, (uintptr_t)made, (uintptr_t)made)) {
        free_request(made);
        made = NULL;
    }
    if (made == NULL) {
        return cf_hybrid_fail(hybrid->comm, MPI_ERR_NO_MEM);
    }
    made->hybrid = hybrid;
    made->serial = found->serial;
    made->args.comm = hybrid->comm;
    made->choice = choice;
    *request = made;
    return MPI_SUCCESS;
}

static bool is_live(struct collforge_hybrid_request *request) {
    uintptr_t found = 0;

    return cf_handle_find(&live, (uintptr_t)request, &found);
}

int collforge_hybrid_start(struct collforge_hybrid_request *request) {
    struct cf_hybrid *found = is_live(request) ? cf_hybrid_find(request->hybrid) : NULL;

    if (found == NULL || found->serial != request->serial) {
        return cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_REQUEST);
    }
    return cf_hybrid_fail(found->open.comm, run(found, request->choice, &request->args));
}

int collforge_hybrid_request_free(struct collforge_hybrid_request **request) {
    if (!is_live(*request)) {
        return cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_REQUEST);
    }
    cf_handle_remove(&live, (uintptr_t)*request);
    free_request(*request);
    *request = NULL;
    return MPI_SUCCESS;
}
