#include "comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "chunks.h"
#include "log.h"
#include "prepare.h"
#include "shared_window.h"
#include "topology.h"

struct cf_handle_table cf_states = CF_HANDLE_TABLE_INITIALIZER;
struct cf_state *cf_freed = NULL;

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

/* ---- communicators that are being freed ------------------------------------------------------ */

/*
 * A communicator says by its name that its freeing has begun. Its handle does not tell: it may
 * belong to a new one soon. Its attributes may not be touched: MPICH is deleting them, maybe only
 * inside MPI_Wait, when the last request on the communicator is gone.
 */
static const char freed_mark[] = " (freed)";

static bool has_mark(MPI_Comm comm) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    if (PMPI_Comm_get_name(comm, name, &length) != MPI_SUCCESS)
        return false;
    const size_t mark = sizeof freed_mark - 1;
    const size_t used = strlen(name);
    return used >= mark && strcmp(name + used - mark, freed_mark) == 0;
}

static void begin_freeing(MPI_Comm comm) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    if (PMPI_Comm_get_name(comm, name, &length) != MPI_SUCCESS)
        return;
    name[MPI_MAX_OBJECT_NAME - sizeof freed_mark] = '\0';
    memcpy(name + strlen(name), freed_mark, sizeof freed_mark);
    if (PMPI_Comm_set_name(comm, name) != MPI_SUCCESS ||
        !cf_handle_insert(&cf_states, (uintptr_t)comm, (uintptr_t)cf_freed))
        cf_handle_remove(&cf_states, (uintptr_t)comm);
}

/* One that has a state comes to forget_comm. */
static void leave_comm(MPI_Comm comm) {
    uintptr_t found = 0;
    if (comm == MPI_COMM_NULL || comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF ||
        comm_keyval == MPI_KEYVAL_INVALID)
        return;
    if (!cf_handle_find(&cf_states, (uintptr_t)comm, &found) || found == (uintptr_t)cf_freed)
        begin_freeing(comm);
}

static struct {
    int (*free)(MPI_Comm *);
    int (*disconnect)(MPI_Comm *);
} next = {PMPI_Comm_free, PMPI_Comm_disconnect};

__attribute__((constructor)) static void chain(void) {
    cf_chain("MPI_Comm_free", &next.free);
    cf_chain("MPI_Comm_disconnect", &next.disconnect);
}

/* Open MPI has called all callbacks then. Its handles are addresses, which may never come again. */
static void has_left(MPI_Comm comm) {
#if defined(OPEN_MPI)
    cf_handle_remove_if(&cf_states, (uintptr_t)comm, (uintptr_t)cf_freed);
#else
    (void)comm;
#endif
}

COLLFORGE_PUBLIC int MPI_Comm_free(MPI_Comm *comm) {
    const MPI_Comm handle = comm == NULL ? MPI_COMM_NULL : *comm;
    leave_comm(handle);
    const int err = next.free(comm);
    has_left(handle);
    return err;
}

COLLFORGE_PUBLIC int MPI_Comm_disconnect(MPI_Comm *comm) {
    const MPI_Comm handle = comm == NULL ? MPI_COMM_NULL : *comm;
    leave_comm(handle);
    const int err = next.disconnect(comm);
    has_left(handle);
    return err;
}

/* The attribute's delete callback: the communicator is being freed, or we drop its state. */
static int forget_comm(MPI_Comm comm, int keyval, void *value, void *extra) {
    struct cf_state *state = value;
    (void)keyval;
    (void)extra;
    if (state->dropped)
        cf_handle_remove(&cf_states, (uintptr_t)comm);
    else
        begin_freeing(comm);
    list_remove(state);
    free_state(state);
    return MPI_SUCCESS;
}

static int drop(struct cf_state *state) {
    state->dropped = true;
    return PMPI_Comm_delete_attr(state->comm.handle, comm_keyval);
}

/* ---- states ---------------------------------------------------------------------------------- */

/*
 * Stage one but for the attribute. Intercommunicators and foreign processes leave the layout empty,
 * and so do communicators of a size for which nobody has tuned: theirs is never asked for, and what
 * all programs have many of costs neither time nor memory by the rank.
 */
static int describe(struct cf_state *state, MPI_Comm comm) {
    char name[CF_LAYOUT_NAME_SIZE];
    int inter = 0;
    int size = 0;
    state->comm.handle = comm;
    state->comm.layout.node_comm = MPI_COMM_NULL;
    state->comm.layout.lane_comm = MPI_COMM_NULL;
    state->comm.layout.order_comm = MPI_COMM_NULL;
    int err = PMPI_Comm_test_inter(comm, &inter);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_size(comm, &size);
    const bool wanted = !cf_runtime.tuned_only || cf_rules_any_for(size);
    if (err == MPI_SUCCESS && !inter && wanted)
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
    uintptr_t found = 0;
    *out = NULL;
    if (comm == MPI_COMM_NULL || comm_keyval == MPI_KEYVAL_INVALID ||
        (cf_handle_find(&cf_states, (uintptr_t)comm, &found) && has_mark(comm)))
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
        (void)drop(state);
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

static bool complete_communicators(struct cf_comm *comm, const void *unused) {
    (void)unused;
    return cf_comm_agree(comm->handle, cf_layout_add_lanes(&comm->layout)) &&
           cf_layout_connect(&comm->layout, comm->handle);
}

/* Stage two, collective. It succeeds on all ranks or on none. */
static int complete(struct cf_state *state) {
    bool done = false;
    const int err =
        cf_prepare_part(&state->comm, CF_LAYOUT_COMMS, complete_communicators, NULL, &done);
    if (err != MPI_SUCCESS)
        return err;
    if (!done)
        complain(state);
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
    if (err == MPI_SUCCESS && state->comm.layout.size > 0 && state->stage == CF_STAGE_LOCAL)
        err = complete(state);
    if (err == MPI_SUCCESS && state->stage == CF_STAGE_COMPLETE)
        *out = &state->comm;
    return err;
}

/* The choice alone, in one store: another thread may be reading it for its call. */
void cf_states_unsettle(void) {
    (void)pthread_mutex_lock(&list.mutex);
    for (struct cf_state *state = list.first; state != NULL; state = state->next)
        for (int collective = 0; collective < cf_ncollectives; collective++)
            state->last[collective].settled.choice = NULL;
    (void)pthread_mutex_unlock(&list.mutex);
}

int cf_states_start(void) {
    cf_freed = calloc(1, sizeof *cf_freed + (size_t)cf_ncollectives * sizeof cf_freed->last[0]);
    return cf_freed == NULL
               ? MPI_ERR_NO_MEM
               : PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_comm, &comm_keyval, NULL);
}

void cf_states_stop(void) {
    if (comm_keyval == MPI_KEYVAL_INVALID)
        return;
    for (struct cf_state *state = list.first; state != NULL; state = state->next)
        cf_shared_close(&state->comm);
    while (list.first != NULL)
        if (drop(list.first) != MPI_SUCCESS)
            break;
    (void)PMPI_Comm_free_keyval(&comm_keyval);
    cf_handle_clear(&cf_states);
    free(cf_freed);
    cf_freed = NULL;
}
