/*
 * MPI_Comm_free and MPI_Comm_disconnect. Wrapped under both names, because tools call PMPI's. Both
 * calls of one free may come here: the inner one is idempotent. PMPI's are weak: a program that is
 * linked with all of MPI has MPI's own.
 */
#include "base/cf.h"
#include "base/chain.h"
#include "base/library.h"
#include "comm/being_freed.h"
#include "comm/comm.h"
#include "comm/companions.h"
#include "comm/under_way.h"

#pragma weak PMPI_Comm_free
#pragma weak PMPI_Comm_disconnect

static struct {
    int (*free)(MPI_Comm *);
    int (*disconnect)(MPI_Comm *);
} next = {PMPI_Comm_free, PMPI_Comm_disconnect};

__attribute__((constructor)) static void chain(void) {
    cf_chain("MPI_Comm_free", &next.free);
    cf_chain("MPI_Comm_disconnect", &next.disconnect);
}

/* The communicator and its hidden ones serve the calls under way to their end. */
static void finish(MPI_Comm comm) {
    uintptr_t found = 0;
    if (cf_handle_find(&cf_states, (uintptr_t)comm, &found)) {
        cf_under_way_finish((const struct cf_state *)found);
        if (found != (uintptr_t)cf_freed) {
            cf_companions_free((struct cf_state *)found);
        }
    }
}

static int leave(int (*free_it)(MPI_Comm *), MPI_Comm *comm) {
    const MPI_Comm handle = comm == NULL ? MPI_COMM_NULL : *comm;
    if (handle == MPI_COMM_NULL || handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF) {
        return free_it(comm);
    }
    if (cf_runtime.nonblocking) {
        finish(handle);
    }
    if (!cf_state_freeing(handle)) {
        return free_it(comm);
    }
    const int err = free_it(comm);
    /* A delete callback of the program has failed, and the communicator lives on. Whether our
     * callback was called before depends on the order of the attributes, which may differ between
     * ranks. Open MPI's MPI_Comm_disconnect returns no error then. */
    if (*comm == handle) {
        cf_state_decline(handle);
    }
    cf_freeing_end(handle);
    if (cf_library.freed_on_return) {
        cf_handle_remove_if(&cf_states, (uintptr_t)handle, (uintptr_t)cf_freed);
    }
    return err;
}

COLLFORGE_PUBLIC int MPI_Comm_free(MPI_Comm *comm) {
    return leave(next.free, comm);
}

COLLFORGE_PUBLIC int MPI_Comm_disconnect(MPI_Comm *comm) {
    return leave(next.disconnect, comm);
}

__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Comm_free(MPI_Comm *comm) {
    return leave(cf_mpi_comm_free, comm);
}

__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Comm_disconnect(MPI_Comm *comm) {
    return leave(cf_mpi_comm_disconnect, comm);
}

int cf_comm_free(MPI_Comm *comm) {
    return leave(cf_mpi_comm_free, comm);
}
