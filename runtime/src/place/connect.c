#include "place/connect.h"

#include <stdatomic.h>

#include "base/cf.h"
#include "base/chain.h"
#include "base/library.h"
#include "base/runtime.h"

static atomic_int hidden_comms;

bool cf_hidden_may(int more) {
    return atomic_load(&hidden_comms) + more <= CF_MOST_HIDDEN;
}

void cf_hidden_count(int more) {
    (void)atomic_fetch_add(&hidden_comms, more);
}

bool cf_hidden_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
    if (cf_mpi_comm_split(comm, color, key, out) != MPI_SUCCESS) {
        return false;
    }
    if (*out == MPI_COMM_NULL) {
        return true;
    }
    cf_hidden_count(1);
    return PMPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

void cf_hidden_free(MPI_Comm *comm) {
    if (*comm == MPI_COMM_NULL) {
        return;
    }
    (void)cf_mpi_comm_free(comm);
    cf_hidden_count(-1);
}

/*
 * Whether this rank may create communicators from this one now (number 0: an MPI window). None are
 * created while the program may be creating some, if the MPI library cannot have both. The
 * exception is MPI_COMM_WORLD on the main thread, but not for windows, which create communicators
 * of a node.
 */
static bool may_make(const struct cf_comm *comm, int number) {
    int level = MPI_THREAD_SINGLE;
    int main_thread = 0;
    if (cf_library.may_be_making == NULL) {
        return cf_hidden_may(number);
    }
    if (cf_library.may_be_making() || PMPI_Query_thread(&level) != MPI_SUCCESS) {
        return false;
    }
    if (level == MPI_THREAD_MULTIPLE && !cf_runtime.raised &&
        (comm->handle != MPI_COMM_WORLD || number == 0 ||
         PMPI_Is_thread_main(&main_thread) != MPI_SUCCESS || !main_thread)) {
        return false;
    }
    return cf_hidden_may(number);
}

static void ignore(MPI_Comm *comm, int *err, ...) {
    (void)comm;
    (void)err;
}

/*
 * Sets the user's error handler aside while part runs, because a failure there means native, not an
 * abort. Another thread may set a handler meanwhile. That one stays: it is recognised because it
 * differs from ours, which is unique.
 */
int cf_prepare_part(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool *done) {
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Errhandler current = MPI_ERRHANDLER_NULL;
    MPI_Errhandler ours = MPI_ERRHANDLER_NULL;
    *done = cf_comm_agree(comm->handle, may_make(comm, hidden)); /* waits for late ranks */
    if (!*done) {
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Comm_create_errhandler(ignore, &ours));
    CF_TRY(PMPI_Comm_get_errhandler(comm->handle, &handler));
    CF_TRY(PMPI_Comm_set_errhandler(comm->handle, ours));
    *done = part(comm, wanted);
    if (PMPI_Comm_get_errhandler(comm->handle, &current) == MPI_SUCCESS) {
        if (current == ours) {
            (void)PMPI_Comm_set_errhandler(comm->handle, handler);
        }
        (void)PMPI_Errhandler_free(&current);
    }
    (void)PMPI_Errhandler_free(&handler);
    (void)PMPI_Errhandler_free(&ours);
    return MPI_SUCCESS;
}

static _Thread_local bool only_local;

void cf_prepare_local(bool local) {
    only_local = local;
}

int cf_prepare_once(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool there, bool *refused) {
    bool done = false;
    if (there || *refused || only_local) {
        return MPI_SUCCESS;
    }
    CF_TRY(cf_prepare_part(comm, hidden, part, wanted, &done));
    *refused = !done;
    return MPI_SUCCESS;
}

/* ---- communicators of a layout --------------------------------------------------------------- */

bool cf_layout_connect(struct cf_layout *layout, MPI_Comm comm) {
    const int lane = layout->node_rank < layout->min_node_size ? layout->node_rank : MPI_UNDEFINED;
    bool good = cf_hidden_split(comm, layout->node, layout->rank, &layout->node_comm);
    good &= cf_hidden_split(comm, lane, layout->node, &layout->lane_comm);
    if (!layout->consecutive) {
        good &= cf_hidden_split(comm, 0, layout->rank, &layout->order_comm);
    }
    return cf_comm_agree(comm, good);
}

void cf_layout_disconnect(struct cf_layout *layout) {
    cf_hidden_free(&layout->node_comm);
    cf_hidden_free(&layout->lane_comm);
    cf_hidden_free(&layout->order_comm);
}

static bool make_order(struct cf_comm *comm, const void *unused) {
    struct cf_layout *layout = &comm->layout;
    (void)unused;
    return cf_comm_agree(comm->handle,
                         cf_hidden_split(comm->handle, 0, layout->rank, &layout->order_comm));
}

int cf_order_ready(struct cf_comm *comm, bool *ready) {
    const MPI_Comm *made = &comm->layout.order_comm;
    const int err =
        cf_prepare_once(comm, 1, make_order, NULL, *made != MPI_COMM_NULL, &comm->order_refused);
    *ready = *made != MPI_COMM_NULL && !comm->order_refused;
    return err;
}
