/* Creates and frees the packages of collforge_hybrid.h, and synchronises their ranks. */
#include "hybrid/hybrid.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/handle_table.h"
#include "base/runtime.h"
#include "data/sizes.h"
#include "data/tmpbuf.h"
#include "node/shared_window.h"
#include "place/connect.h"
#include "place/topology.h"

/* The existing packages: a handle may be a copy of a freed one. */
static struct cf_handle_table live = CF_HANDLE_TABLE_INITIALIZER;

struct cf_hybrid *cf_hybrid_find(struct collforge_hybrid *hybrid) {
    uintptr_t found = 0;

    return cf_handle_find(&live, (uintptr_t)hybrid, &found) ? (struct cf_hybrid *)found : NULL;
}

static int class_of(int err) {
    int class = err;

    (void)PMPI_Error_class(err, &class);
    return class;
}

int cf_hybrid_fail(MPI_Comm comm, int err) {
    if (err == MPI_SUCCESS) {
        return err;
    }
    (void)PMPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, err);
    return class_of(err);
}

/* ---- create and free ------------------------------------------------------------------------- */

static void describe(struct cf_hybrid *hybrid) {
    const struct cf_layout *at = &hybrid->state->comm.layout;
    struct collforge_hybrid *open = &hybrid->open;

    open->node_comm = at->node_comm;
    open->bridge_comm = at->node_rank == 0 ? at->lane_comm : MPI_COMM_NULL;
    open->size = at->size;
    open->rank = at->rank;
    open->nodes = at->nodes;
    open->node = at->node;
    open->node_size = at->node_size[at->node];
    open->node_rank = at->node_rank;
    open->node_of = at->node_of;
    open->node_rank_of = at->node_rank_of;
}

static void destroy(struct cf_hybrid *hybrid) {
    struct cf_comm *comm = &hybrid->state->comm;

    cf_shared_close(comm);
    cf_layout_disconnect(&comm->layout);
    cf_layout_free(&comm->layout);
    cf_tmpbufs_free(&comm->tmpbufs);
    free(hybrid->state);
    free(hybrid->defaults);
    free(hybrid);
}

/* Splits the layout's nodes into NUMA domains, and counts those of this rank's node. */
static int split(struct cf_layout *layout, MPI_Comm comm, int *leaders) {
    int *node_of = malloc((size_t)layout->size * sizeof *node_of);

    if (!cf_comm_agree(comm, node_of != NULL)) {
        free(node_of);
        return MPI_ERR_NO_MEM;
    }
    memcpy(node_of, layout->node_of, (size_t)layout->size * sizeof *node_of);
    const int err = cf_layout_split_domains(layout, comm);
    *leaders = 0;
    for (int rank = 0; rank < layout->size && err == MPI_SUCCESS; rank++) {
        *leaders += node_of[rank] == node_of[layout->rank] && layout->node_rank_of[rank] == 0;
    }
    free(node_of);
    return err;
}

/* Finds the nodes of the ranks. Equal on all ranks, unless some return an error. */
static int discover(struct cf_layout *layout, MPI_Comm comm, bool domains, bool *of_world,
                    int *leaders) {
    layout->node_comm = layout->lane_comm = layout->order_comm = MPI_COMM_NULL;
    const int err = cf_layout_discover(layout, comm, of_world);
    const bool known = err == MPI_SUCCESS && layout->size > 0;

    *leaders = 1;
    if (domains && cf_comm_agree(comm, known)) {
        return split(layout, comm, leaders);
    }
    return err;
}

/* Creates the package of a communicator duplicated for it, on all ranks or on none. */
static int create(MPI_Comm comm, bool domains, struct cf_hybrid **out) {
    struct cf_hybrid *hybrid = calloc(1, sizeof *hybrid);
    struct cf_state *state = cf_state_allocate();

    if (!cf_comm_agree(comm, hybrid != NULL && state != NULL)) {
        free(hybrid);
        free(state);
        return MPI_ERR_NO_MEM;
    }
    struct cf_layout *layout = &state->comm.layout;
    static atomic_uint_fast64_t created;
    hybrid->serial = atomic_fetch_add(&created, 1);
    hybrid->state = state;
    state->stage = CF_STAGE_COMPLETE;
    hybrid->open.comm = state->comm.handle = comm;
    bool of_world = false;
    int err = discover(layout, comm, domains, &of_world, &hybrid->leaders);
    const bool known = err == MPI_SUCCESS && layout->size > 0 && cf_layout_add_lanes(layout) &&
                       cf_types_start() == MPI_SUCCESS && cf_hybrid_prepare(hybrid, of_world) &&
                       cf_handle_insert(&live, (uintptr_t)hybrid, (uintptr_t)hybrid);
    if (!cf_comm_agree(comm, known) || !cf_layout_connect(layout, comm)) {
        cf_handle_remove(&live, (uintptr_t)hybrid);
        destroy(hybrid);
        return err == MPI_SUCCESS ? MPI_ERR_NO_MEM : err;
    }
    state->comm.shared_refused = !cf_shared_open(&state->comm);
    describe(hybrid);
    *out = hybrid;
    return MPI_SUCCESS;
}

static int create_checked(MPI_Comm comm, bool domains, struct collforge_hybrid **hybrid) {
    struct cf_hybrid *made = NULL;
    MPI_Comm own = MPI_COMM_NULL;
    int inter = 0;

    *hybrid = NULL;
    /* If these fail, MPI has already called an error handler. */
    int err = PMPI_Comm_test_inter(comm, &inter);
    if (err == MPI_SUCCESS && inter) {
        return cf_hybrid_fail(comm, MPI_ERR_COMM);
    }
    if (err == MPI_SUCCESS) {
        err = cf_mpi_comm_dup(comm, &own);
    }
    if (err != MPI_SUCCESS) {
        return class_of(err);
    }
    err = create(own, domains, &made);
    if (err != MPI_SUCCESS) {
        (void)cf_comm_free(&own);
        return cf_hybrid_fail(comm, err);
    }
    *hybrid = &made->open;
    return MPI_SUCCESS;
}

int collforge_hybrid_create(MPI_Comm comm, struct collforge_hybrid **hybrid) {
    return create_checked(comm, false, hybrid);
}

int collforge_hybrid_create_numa(MPI_Comm comm, struct collforge_hybrid **hybrid) {
    return create_checked(comm, true, hybrid);
}

int collforge_hybrid_free(struct collforge_hybrid **hybrid) {
    struct cf_hybrid *found = cf_hybrid_find(*hybrid);

    CF_TRY(found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM) : MPI_SUCCESS);
    MPI_Comm comm = found->open.comm;
    const int err = cf_pieces_free(found);
    cf_handle_remove(&live, (uintptr_t)*hybrid);
    *hybrid = NULL;
    destroy(found);
    const int freed = cf_comm_free(&comm);
    return err == MPI_SUCCESS ? class_of(freed) : cf_hybrid_fail(MPI_COMM_NULL, err);
}

/* ---- synchronisation ------------------------------------------------------------------------- */

int cf_hybrid_sync(struct cf_hybrid *hybrid) {
    const struct cf_ranks all = {0, hybrid->open.node_size};

    return cf_node_wait(&hybrid->state->comm, all, all, false);
}

int collforge_hybrid_sync(struct collforge_hybrid *hybrid) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);

    return found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM)
                         : cf_hybrid_fail(hybrid->comm, cf_hybrid_sync(found));
}

int collforge_hybrid_barrier(struct collforge_hybrid *hybrid) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);

    CF_TRY(found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM) : MPI_SUCCESS);
    if (hybrid->nodes == 1) {
        return cf_hybrid_fail(hybrid->comm, cf_hybrid_sync(found));
    }
    const struct cf_ranks all = {0, hybrid->node_size};
    const struct cf_ranks leader = {0, 1};
    int err = cf_node_wait(&found->state->comm, leader, all, false);
    if (err == MPI_SUCCESS && hybrid->bridge_comm != MPI_COMM_NULL) {
        err = PMPI_Barrier(hybrid->bridge_comm);
    }
    /* Even if the barrier failed, so that the ranks of the node return. */
    const int released = cf_node_wait(&found->state->comm, all, leader, false);
    return cf_hybrid_fail(hybrid->comm, err == MPI_SUCCESS ? released : err);
}
