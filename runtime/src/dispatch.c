/* From a call to what it runs. */
#include <limits.h>

#include "cf.h"
#include "comm.h"
#include "dispatch.h"
#include "observe.h"
#include "runtime.h"
#include "sizes.h"

/* Stands for "the state of this communicator did not fit into memory", which cf_run reports. */
static const struct cf_choice out_of_memory = {0};

void cf_facts_fill(struct cf_facts *facts, const struct cf_layout *layout, int collective,
                   int64_t bytes, MPI_Op op) {
    int commutative = 1;
    if (cf_collectives[collective].has_op)
        (void)PMPI_Op_commutative(op, &commutative);
    *facts = (struct cf_facts){
        .size = layout->size,
        .nodes = layout->nodes,
        .min_node_size = layout->min_node_size,
        .max_node_size = layout->max_node_size,
        .consecutive = layout->consecutive,
        .commutative = commutative,
        .bytes = bytes,
        .total_bytes =
            cf_collectives[collective].total_is_size_blocks ? layout->size * bytes : bytes,
    };
}

static inline bool any_tuned(const struct cf_state *state, int collective) {
    return state->rules != NULL && state->rules->tuned[collective];
}

static inline const struct cf_choice *look_up(const struct cf_state *state, int collective,
                                              int64_t bytes) {
    if (bytes <= 0 || bytes > INT_MAX)
        return NULL;
    return state->rules->by_size[collective * CF_BUCKETS + cf_bucket((uint64_t)bytes)];
}

const struct cf_choice *cf_choose_bytes(const struct cf_state *state, int collective,
                                        int64_t bytes) {
    return any_tuned(state, collective) ? look_up(state, collective, bytes) : NULL;
}

/* The first call with a communicator or a type, and every call that is counted or logged. */
__attribute__((cold, noinline)) static const struct cf_choice *
choose_slowly(int collective, MPI_Comm comm, int count, MPI_Datatype type) {
    struct cf_state *state = NULL;
    const int err = cf_state_of(comm, &state);
    if (err != MPI_SUCCESS)
        return err == MPI_ERR_NO_MEM ? &out_of_memory : NULL;
    if (!cf_runtime.observed && !any_tuned(state, collective))
        return NULL;
    const int64_t size = cf_type_size(type);
    if (count < 0 || size < 0)
        return NULL;
    const int64_t bytes = count * size;
    const struct cf_choice *choice = cf_choose_bytes(state, collective, bytes);
    state->bytes = bytes;
    if (cf_runtime.observed)
        cf_observe_call(state, collective, bytes, choice);
    return choice;
}

/* Every call of every collective comes through here. The slow path is a tail call, so that this
 * needs no stack. */
const struct cf_choice *cf_choose(int collective, MPI_Comm comm, int count, MPI_Datatype type) {
    uintptr_t found;
    uintptr_t size;
    if (!cf_runtime.active)
        return NULL;
    if (!cf_handle_find(&cf_states, (uintptr_t)comm, &found) || cf_runtime.observed)
        return choose_slowly(collective, comm, count, type);
    struct cf_state *state = (struct cf_state *)found;
    if (!any_tuned(state, collective))
        return NULL;
    if (!cf_handle_find(&cf_types, (uintptr_t)type, &size))
        return choose_slowly(collective, comm, count, type);
    state->bytes = count * (int64_t)size;
    return look_up(state, collective, state->bytes);
}

static bool side_is_illegal(const void *buffer, int count, MPI_Datatype type) {
    return buffer != MPI_IN_PLACE && (count < 0 || type == MPI_DATATYPE_NULL);
}

/* Looks only at arguments that are significant on this rank. */
static bool is_illegal(const struct cf_collective_info *info, const struct cf_args *args,
                       const struct cf_layout *layout) {
    if (info->has_op && args->op == MPI_OP_NULL)
        return true;
    if (info->rooted && (args->root < 0 || args->root >= layout->size))
        return true;
    /* On the other ranks only the side that cf_choose was given is significant. */
    if (info->rooted && args->root != layout->rank)
        return false;
    return side_is_illegal(args->sendbuf, args->sendcount, args->sendtype) ||
           side_is_illegal(args->recvbuf, args->recvcount, args->recvtype);
}

static bool applies(const struct cf_choice *choice, const struct cf_facts *facts) {
    return facts->total_bytes <= INT_MAX && choice->variant->applicable(facts);
}

/* An error of a component stands for an error of the call. */
static int raise(MPI_Comm comm, int err) {
    (void)PMPI_Comm_call_errhandler(comm, err);
    return err;
}

int cf_run(const struct cf_choice *choice, int collective, const struct cf_args *args) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    struct cf_state *state = NULL;
    struct cf_comm *comm = NULL;
    struct cf_facts facts;

    if (choice->variant == NULL)
        return raise(args->comm, MPI_ERR_NO_MEM);
    int err = cf_state_of(args->comm, &state);
    if (err != MPI_SUCCESS)
        return raise(args->comm, err);
    if (is_illegal(info, args, &state->comm.layout))
        return info->native(args);
    cf_facts_fill(&facts, &state->comm.layout, collective, state->bytes, args->op);
    if (!applies(choice, &facts)) {
        if (cf_runtime.observed)
            cf_observe_refusal(state, collective, choice);
        return info->native(args);
    }
    err = cf_comm_get(args->comm, &comm);
    if (err == MPI_SUCCESS && comm == NULL)
        return info->native(args);
    if (err == MPI_SUCCESS)
        err = choice->variant->run(args, comm, choice->parameter);
    return err == MPI_SUCCESS ? MPI_SUCCESS : raise(args->comm, err);
}

bool cf_applies_by_layout(const struct cf_choice *choice, const struct cf_layout *layout,
                          int64_t bytes) {
    struct cf_facts facts;
    cf_facts_fill(&facts, layout, choice->variant->collective, bytes, MPI_SUM);
    return applies(choice, &facts);
}
