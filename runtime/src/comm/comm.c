#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/library.h"
#include "base/log.h"
#include "chunks/chunks.h"
#include "comm/being_freed.h"
#include "comm/companions.h"
#include "comm/duplicates.h"
#include "comm/observe.h"
#include "comm/under_way.h"
#include "data/tmpbuf.h"
#include "node/shared_window.h"
#include "place/connect.h"

struct cf_handle_table cf_states = CF_HANDLE_TABLE_INITIALIZER;
struct cf_state *cf_freed = NULL;
struct cf_state *cf_untuned = NULL;
static struct cf_state *cf_declined = NULL;

static int comm_keyval = MPI_KEYVAL_INVALID;

/* Attributes may still exist after cf_states_stop. */
static bool is_stopped(void) {
    return comm_keyval == MPI_KEYVAL_INVALID;
}

/* ---- duplicates ----------------------------------------------------------------------------- */

/*
 * The attribute's value is a state. For a duplicate without a call it is a reference to what
 * duplicates have in common, marked by an odd address.
 */
static void *reference_to(struct cf_common *common) {
    return (char *)cf_common_use(common) + 1;
}

static struct cf_common *referred(void *value) {
    return (uintptr_t)value % 2 == 1 ? (struct cf_common *)((char *)value - 1) : NULL;
}

/* Whether several communicators have it. */
static bool is_shared(const struct cf_state *state) {
    return state == cf_untuned || state == cf_freed || state == cf_declined;
}

/*
 * The attribute's copy callback, called in MPI's duplicating functions. The duplicate's handle is
 * unknown here; cf_state_enter builds its state later. Makes no MPI call, because Open MPI holds a
 * lock. Allocates no memory, so that it cannot make MPI_Comm_dup fail.
 */
static int inherit(MPI_Comm old, int keyval, void *extra, void *value, void *out, int *flag) {
    (void)old;
    (void)keyval;
    (void)extra;
    /* A duplicate has the hints of the original up to MPI-3.1. */
    const bool declined = MPI_VERSION < 4 && value == cf_declined;
    *flag = !is_stopped() && (declined || !is_shared(value));
    if (*flag && declined) {
        memcpy(out, &value, sizeof value);
    } else if (*flag) {
        struct cf_common *common = referred(value);
        value = reference_to(common == NULL ? ((struct cf_state *)value)->common : common);
        memcpy(out, &value, sizeof value);
    }
    return MPI_SUCCESS;
}

/* ---- all states ------------------------------------------------------------------------------ */

/* All states. The complete ones are in the order of completion, which is equal on all ranks. */
static struct {
    pthread_mutex_t mutex;
    struct cf_state *first, *last;
} list = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void list_append(struct cf_state *state) {
    (void)pthread_mutex_lock(&list.mutex);
    state->previous = list.last;
    state->next = NULL;
    *(list.last == NULL ? &list.first : &list.last->next) = state;
    list.last = state;
    (void)pthread_mutex_unlock(&list.mutex);
}

static void list_remove(struct cf_state *state) {
    (void)pthread_mutex_lock(&list.mutex);
    *(state->previous == NULL ? &list.first : &state->previous->next) = state->next;
    *(state->next == NULL ? &list.last : &state->next->previous) = state->previous;
    (void)pthread_mutex_unlock(&list.mutex);
}

static void free_communicators(struct cf_comm *comm) {
    cf_shared_close(comm);
    cf_chunks_disconnect(comm);
    cf_layout_disconnect(&comm->layout);
}

static void free_state(struct cf_state *state) {
    cf_observe_leave(state);
    while (state->trials[0] != NULL || state->trials[1] != NULL) {
        struct cf_trial **first = &state->trials[state->trials[0] == NULL];
        struct cf_trial *trial = *first;
        *first = trial->next;
        free(trial);
    }
    free_communicators(&state->comm);
    cf_layout_free_copy(&state->comm.layout);
    cf_tmpbufs_free(&state->comm.tmpbufs);
    cf_common_leave(state->common, !is_stopped());
    free(state);
}

/* ---- communicators being freed --------------------------------------------------------------- */

static void be_freed(MPI_Comm comm) {
    if (!cf_handle_insert(&cf_states, (uintptr_t)comm, (uintptr_t)cf_freed)) {
        cf_handle_remove(&cf_states, (uintptr_t)comm);
    }
}

/* Whether another state has taken the place of this attribute's value. */
static bool is_replaced(MPI_Comm comm, const void *value) {
    uintptr_t found = 0;
    return cf_handle_find(&cf_states, (uintptr_t)comm, &found) && found != (uintptr_t)value &&
           found != (uintptr_t)cf_freed;
}

/*
 * The attribute's delete callback. Called when the communicator is freed, when the runtime drops
 * its state, or when another value replaces it. After cf_states_stop only references are left.
 */
static int forget_comm(MPI_Comm comm, int keyval, void *value, void *extra) {
    struct cf_common *common = referred(value);
    struct cf_state *state = value;
    (void)keyval;
    (void)extra;
    if (is_stopped() && common == NULL) {
        return MPI_SUCCESS;
    }
    if (!is_stopped() && common == NULL && state->dropped) {
        cf_handle_remove(&cf_states, (uintptr_t)comm);
    } else if (!is_stopped() && !is_replaced(comm, value)) {
        be_freed(comm);
        cf_freeing_deferred(comm);
    }
    if (common != NULL) {
        cf_common_leave(common, !is_stopped());
    } else if (!is_shared(state)) {
        list_remove(state);
        free_state(state);
    }
    return MPI_SUCCESS;
}

static int drop(struct cf_state *state) {
    cf_under_way_finish(state);
    state->dropped = true;
    return PMPI_Comm_delete_attr(state->comm.handle, comm_keyval);
}

/* ---- states ---------------------------------------------------------------------------------- */

/*
 * Whether any variant can serve the communicator, by its kind and size alone. Programs have many
 * that none can serve. These cost no time or memory per rank.
 */
static int may_be_served(MPI_Comm comm, bool *may) {
    int inter = 0;
    int size = 0;
    CF_TRY(PMPI_Comm_test_inter(comm, &inter));
    CF_TRY(PMPI_Comm_size(comm, &size));
    *may = !inter && (!cf_runtime.tuned_only || cf_rules_any_for(size));
    return MPI_SUCCESS;
}

struct cf_state *cf_state_allocate(void) {
    return calloc(1, sizeof(struct cf_state) + (size_t)cf_ncollectives * sizeof(struct cf_last));
}

/* Takes over a use of what it has in common with others. NULL when out of memory. */
static struct cf_state *new_state(MPI_Comm comm, struct cf_common *common) {
    struct cf_state *state = cf_state_allocate();
    if (state == NULL) {
        cf_common_leave(common, !is_stopped());
        return NULL;
    }
    state->comm.handle = comm;
    state->comm.layout = common->layout;
    state->common = common;
    state->layout_name = common->layout_name;
    state->rules = common->rules;
    list_append(state);
    return state;
}

/* The state of a communicator. common: NULL, or what it inherited. Returns an MPI error class. */
static int make_state(MPI_Comm comm, struct cf_common *common, struct cf_state **out) {
    const bool inherited = common != NULL && cf_common_is_of(common, comm);
    *out = cf_untuned;
    if (inherited) {
        (void)cf_common_use(common);
    } else {
        bool may = true;
        common = NULL;
        CF_TRY(may_be_served(comm, &may));
        if (may) {
            CF_TRY(cf_common_make(comm, &common));
        }
    }
    if (common == NULL) {
        return MPI_SUCCESS;
    }
    *out = new_state(comm, common);
    CF_TRY_MEMORY(*out);
    (*out)->inherited = inherited;
    return MPI_SUCCESS;
}

/*
 * The table entry comes first. It tells the delete callback of a replaced reference that the
 * communicator is not being freed. Returns an MPI error class.
 */
static int attach(MPI_Comm comm, struct cf_state *state) {
    if (!cf_handle_insert(&cf_states, (uintptr_t)comm, (uintptr_t)state)) {
        return MPI_ERR_NO_MEM;
    }
    const int err = PMPI_Comm_set_attr(comm, comm_keyval, state);
    if (err != MPI_SUCCESS) {
        cf_handle_remove(&cf_states, (uintptr_t)comm);
    }
    return err;
}

int cf_state_enter(MPI_Comm comm, struct cf_state **out) {
    struct cf_state *state = NULL;
    uintptr_t known = 0;
    void *value = NULL;
    int found = 0;
    *out = NULL;
    if (comm == MPI_COMM_NULL || comm_keyval == MPI_KEYVAL_INVALID ||
        (cf_handle_find(&cf_states, (uintptr_t)comm, &known) && cf_is_being_freed(comm))) {
        return MPI_ERR_COMM;
    }
    CF_TRY(PMPI_Comm_get_attr(comm, comm_keyval, (void *)&value, &found));
    if (found && value == cf_freed) {
        return MPI_ERR_COMM;
    }
    if (found && value == cf_declined) {
        *out = cf_declined;
        return cf_handle_insert(&cf_states, (uintptr_t)comm, (uintptr_t)cf_declined)
                   ? MPI_SUCCESS
                   : MPI_ERR_NO_MEM;
    }
    CF_TRY(make_state(comm, found ? referred(value) : NULL, &state));
    const int err = attach(comm, state);
    if (err == MPI_SUCCESS) {
        *out = state;
    } else if (!is_shared(state)) {
        list_remove(state);
        free_state(state);
    }
    return err;
}

/* ---- for free.c ------------------------------------------------------------------------------ */

bool cf_state_freeing(MPI_Comm comm) {
    if (is_stopped()) {
        return false;
    }
    be_freed(comm);
    cf_freeing_begin(comm);
    if (!cf_library.freed_on_return) {
        (void)PMPI_Comm_set_attr(comm, comm_keyval, cf_freed);
    }
    return true;
}

void cf_state_decline(MPI_Comm comm) {
    void *value = NULL;
    int found = 0;
    if (is_stopped() ||
        PMPI_Comm_get_attr(comm, comm_keyval, (void *)&value, &found) != MPI_SUCCESS) {
        return;
    }
    if (found && value == cf_declined) { /* setting it again would delete it */
        (void)cf_handle_insert(&cf_states, (uintptr_t)comm, (uintptr_t)cf_declined);
        return;
    }
    if (found && !is_shared(value) && referred(value) == NULL) {
        cf_companions_free(value);
        (void)drop(value);
    }
    (void)attach(comm, cf_declined);
}

/* ---- stage two ------------------------------------------------------------------------------- */

/* No warning: with Open MPI this is what is left to programs with MPI_THREAD_MULTIPLE. */
static void complain(const struct cf_state *state) {
    if (state->comm.layout.rank == 0) {
        cf_log(1,
               "a communicator with layout %s keeps the native collectives: its threads, "
               "MPI_Comm_idup "
               "or the limit of communicators leave no others to its nodes and lanes",
               state->layout_name);
    }
}

static bool complete_communicators(struct cf_comm *comm, const void *completed) {
    const struct cf_state *state = completed;
    return cf_comm_agree(comm->handle, cf_common_take_lanes(state->common, &comm->layout)) &&
           cf_layout_connect(&comm->layout, comm->handle);
}

int cf_raise(MPI_Comm comm, int err) {
    (void)PMPI_Comm_call_errhandler(comm, err);
    if (err == MPI_ERR_NO_MEM) {
        cf_warn("out of memory on a rank that others wait for; the job ends here");
        (void)PMPI_Abort(MPI_COMM_WORLD, err);
    }
    return err;
}

/* Succeeds on all ranks or on none. */
int cf_state_complete(struct cf_state *state) {
    bool done = false;
    if (state->stage != CF_STAGE_LOCAL) {
        return MPI_SUCCESS;
    }
    CF_TRY(cf_prepare_part(&state->comm, CF_LAYOUT_COMMS, complete_communicators, state, &done));
    if (!done) {
        complain(state);
    }
    list_remove(state);
    list_append(state);
    state->stage = done ? CF_STAGE_COMPLETE : CF_STAGE_UNUSABLE;
    if (!done) {
        free_communicators(&state->comm);
        state->rules = NULL;
        memset(state->last, 0, (size_t)cf_ncollectives * sizeof state->last[0]);
    }
    return MPI_SUCCESS;
}

int cf_comm_get(MPI_Comm comm, struct cf_comm **out) {
    struct cf_state *state = NULL;
    *out = NULL;
    int err = cf_state_of(comm, &state);
    if (err == MPI_SUCCESS && state->comm.layout.size > 0) {
        err = cf_state_complete(state);
    }
    if (err == MPI_SUCCESS && state->stage == CF_STAGE_COMPLETE) {
        *out = &state->comm;
    }
    return err;
}

/* Each entry is one store, because another thread may read it. */
void cf_state_unsettle(struct cf_state *state) {
    for (int collective = 0; collective < cf_ncollectives; collective++) {
        state->last[collective].settled = false;
    }
}

void cf_states_for_each(void (*visit)(struct cf_state *)) {
    (void)pthread_mutex_lock(&list.mutex);
    for (struct cf_state *state = list.first; state != NULL; state = state->next) {
        visit(state);
    }
    (void)pthread_mutex_unlock(&list.mutex);
}

int cf_states_start(void) {
    cf_freed = cf_state_allocate();
    cf_untuned = cf_state_allocate();
    cf_declined = cf_state_allocate();
    return cf_freed == NULL || cf_untuned == NULL || cf_declined == NULL
               ? MPI_ERR_NO_MEM
               : PMPI_Comm_create_keyval(inherit, forget_comm, &comm_keyval, NULL);
}

void cf_states_stop(void) {
    if (comm_keyval == MPI_KEYVAL_INVALID) {
        return;
    }
    for (struct cf_state *state = list.first; state != NULL; state = state->next) {
        cf_shared_close(&state->comm);
    }
    while (list.first != NULL) {
        if (drop(list.first) != MPI_SUCCESS) {
            break;
        }
    }
    (void)PMPI_Comm_free_keyval(&comm_keyval);
    cf_handle_clear(&cf_states);
    free(cf_freed);
    free(cf_untuned);
    free(cf_declined);
    cf_freed = cf_untuned = cf_declined = NULL;
}
