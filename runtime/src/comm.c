#include "comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "log.h"
#include "shared_window.h"
#include "topology.h"

struct cf_handle_table cf_states = CF_HANDLE_TABLE_INITIALIZER;

static int comm_keyval = MPI_KEYVAL_INVALID;

/* All states; the complete ones in the order in which they became so, which no two ranks see
 * differently. */
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
    free_communicators(&state->comm);
    cf_layout_free(&state->comm.layout);
    cf_tmpbufs_free(&state->comm.tmpbufs);
    free((char *)state->layout_name);
    free(state);
}

/* The attribute's delete callback: the communicator is being freed, or the runtime stops. */
static int forget_comm(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)keyval;
    (void)extra;
    cf_handle_remove(&cf_states, (uintptr_t)comm);
    list_remove(value);
    free_state(value);
    return MPI_SUCCESS;
}

/* Stage one but for the attribute. Intercommunicators and foreign processes leave the layout empty.
 */
static int describe(struct cf_state *state, MPI_Comm comm) {
    char name[CF_LAYOUT_NAME_SIZE];
    int inter = 0;
    state->handle = comm;
    state->comm.layout.node_comm = MPI_COMM_NULL;
    state->comm.layout.lane_comm = MPI_COMM_NULL;
    state->comm.layout.order_comm = MPI_COMM_NULL;
    int err = PMPI_Comm_test_inter(comm, &inter);
    if (err == MPI_SUCCESS && !inter)
        err = cf_layout_build(&state->comm.layout, comm);
    if (err != MPI_SUCCESS || state->comm.layout.size == 0)
        return err;
    cf_layout_name(&state->comm.layout, name, sizeof name);
    state->layout_name = strdup(name);
    if (state->layout_name == NULL)
        return MPI_ERR_NO_MEM;
    cf_layout_name_with(&state->comm.layout, 1, name, sizeof name);
    if (state->comm.layout.size > 1)
        state->rules = cf_rules_find(name, state->comm.layout.threads);
    return MPI_SUCCESS;
}

int cf_state_enter(MPI_Comm comm, struct cf_state **out) {
    *out = NULL;
    if (comm == MPI_COMM_NULL || comm_keyval == MPI_KEYVAL_INVALID)
        return MPI_ERR_COMM;
    struct cf_state *state =
        calloc(1, sizeof *state + (size_t)cf_ncollectives * sizeof state->last[0]);
    if (state == NULL)
        return MPI_ERR_NO_MEM;
    int err = describe(state, comm);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_set_attr(comm, comm_keyval, state);
    if (err != MPI_SUCCESS) {
        free_state(state);
        return err;
    }
    /* From here on the attribute owns the state. */
    list_append(state);
    if (!cf_handle_insert(&cf_states, (uintptr_t)comm, (uintptr_t)state)) {
        (void)PMPI_Comm_delete_attr(comm, comm_keyval);
        return MPI_ERR_NO_MEM;
    }
    *out = state;
    return MPI_SUCCESS;
}

/* One warning a job: that of world rank 0. Where it is not in the communicator, the log tells. */
static void complain(const struct cf_state *state) {
    static const char text[] =
        "no communicators for the nodes and lanes of a communicator with "
        "layout %s; it keeps the native collectives";
    int world_rank = 0;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (world_rank == 0)
        cf_warn(text, state->layout_name);
    else if (state->comm.layout.rank == 0)
        cf_log(1, text, state->layout_name);
}

/*
 * Whether this rank may make communicators now. Open MPI 4.1 hangs where one thread makes them with
 * MPI_Comm_split or MPI_Comm_dup while others do with MPI_Comm_create_group, so that under it a
 * program's worker threads get none from us: a communicator first used by them stays native.
 */
static bool may_make_communicators(void) {
#if defined(OPEN_MPI)
    int level = MPI_THREAD_SINGLE;
    int main_thread = 0;
    if (PMPI_Query_thread(&level) != MPI_SUCCESS)
        return false;
    return level < MPI_THREAD_MULTIPLE ||
           (PMPI_Is_thread_main(&main_thread) == MPI_SUCCESS && main_thread);
#else
    return true;
#endif
}

/*
 * Runs a collective part of the preparation that makes communicators, if all ranks may. The user's
 * error handler is set aside meanwhile: a library out of communicators is a reason to stay native,
 * not to abort.
 */
static int prepare(struct cf_state *state, bool (*part)(struct cf_state *, const void *),
                   const void *wanted, bool *done) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    int err = PMPI_Comm_get_errhandler(state->handle, &handler);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_set_errhandler(state->handle, MPI_ERRORS_RETURN);
    if (err != MPI_SUCCESS)
        return err;
    *done = cf_comm_agree(state->handle, may_make_communicators()) && part(state, wanted);
    (void)PMPI_Comm_set_errhandler(state->handle, handler);
    (void)PMPI_Errhandler_free(&handler);
    return MPI_SUCCESS;
}

static bool complete_communicators(struct cf_state *state, const void *unused) {
    (void)unused;
    struct cf_layout *layout = &state->comm.layout;
    if (cf_comm_agree(state->handle, cf_layout_add_lanes(layout)) &&
        cf_layout_connect(layout, state->handle))
        return true;
    complain(state);
    return false;
}

/* Stage two, collective. It succeeds on all ranks or on none. */
static int complete(struct cf_state *state) {
    bool done = false;
    const int err = prepare(state, complete_communicators, NULL, &done);
    if (err != MPI_SUCCESS)
        return err;
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

/* Runs a part that only some variants need, at the first call that does; it is refused for good. */
static int prepare_once(struct cf_comm *comm, bool (*part)(struct cf_state *, const void *),
                        const void *wanted, bool there, bool *refused) {
    bool done = false;
    if (there || *refused)
        return MPI_SUCCESS;
    /* A struct cf_comm is the first member of a state. */
    const int err = prepare((struct cf_state *)comm, part, wanted, &done);
    *refused = err == MPI_SUCCESS && !done;
    return err;
}

/* A window brings communicators of the library's own with it. */
static bool open_shared(struct cf_state *state, const void *unused) {
    (void)unused;
    return cf_shared_open(&state->comm, state->handle);
}

int cf_shared_ready(struct cf_comm *comm, bool *ready) {
    const int err =
        prepare_once(comm, open_shared, NULL, comm->shared != NULL, &comm->shared_refused);
    *ready = comm->shared != NULL;
    return err;
}

static bool make_order(struct cf_state *state, const void *unused) {
    (void)unused;
    struct cf_layout *layout = &state->comm.layout;
    return cf_layout_connect_order(layout, state->handle);
}

int cf_order_ready(struct cf_comm *comm, bool *ready) {
    const MPI_Comm *made = &comm->layout.order_comm;
    const int err =
        prepare_once(comm, make_order, NULL, *made != MPI_COMM_NULL, &comm->order_refused);
    *ready = *made != MPI_COMM_NULL && !comm->order_refused;
    return err;
}

static bool connect_chunks(struct cf_state *state, const void *chunks) {
    return cf_chunks_connect(&state->comm, chunks, state->handle);
}

int cf_chunks_ready(struct cf_comm *comm, const struct cf_chunks *chunks, bool *ready) {
    const bool there = cf_chunks_find(comm, chunks) != NULL;
    const int err = prepare_once(comm, connect_chunks, chunks, there, &comm->chunks_refused);
    *ready = there || cf_chunks_find(comm, chunks) != NULL;
    return err;
}

int cf_comm_get(MPI_Comm comm, struct cf_comm **out) {
    struct cf_state *state = NULL;
    *out = NULL;
    int err = cf_state_of(comm, &state);
    if (err == MPI_SUCCESS && state->comm.layout.size > 0 && state->stage == CF_STAGE_LOCAL)
        err = complete(state);
    if (err == MPI_SUCCESS && state->stage == CF_STAGE_COMPLETE)
        *out = &state->comm;
    return err;
}

int cf_states_start(void) {
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_comm, &comm_keyval, NULL);
}

void cf_states_stop(void) {
    if (comm_keyval == MPI_KEYVAL_INVALID)
        return;
    for (struct cf_state *state = list.first; state != NULL; state = state->next)
        cf_shared_close(&state->comm);
    while (list.first != NULL)
        if (PMPI_Comm_delete_attr(list.first->handle, comm_keyval) != MPI_SUCCESS)
            break;
    (void)PMPI_Comm_free_keyval(&comm_keyval);
    cf_handle_clear(&cf_states);
}
