#include "data/at_root.h"

enum { TAG_REST = 16 };

int cf_own_slice(struct cf_comm *comm, const void *from, void *to, const struct cf_split *slices,
                 const struct cf_unit *unit) {
    const int me = comm->layout.node_rank;

    return cf_copy(comm, to, cf_at(unit, from, slices->displs[me]), slices->counts[me], unit);
}

/* Adds the vector of node rank q, without its own slice, to those of the ranks before it. */
static int add(struct cf_comm *comm, const void *vector, int q, void *to,
               const struct cf_split *slices, const struct cf_unit *unit, MPI_Op op) {
    for (int m = 0; m < slices->n; m++) {
        const void *source = cf_at(unit, vector, slices->displs[m]);
        void *target = cf_at(unit, to, slices->displs[m]);
        const bool is_first = q == 0 || (q == 1 && m == 0);
        if (m == q) {
            continue;
        }
        CF_TRY(is_first ? cf_copy(comm, target, source, slices->counts[m], unit)
                        : cf_combine(comm, source, target, slices->counts[m], unit, op));
    }
    return MPI_SUCCESS;
}

int cf_reduce_rest(struct cf_comm *comm, const void *from, void *to, const struct cf_split *slices,
                   const struct cf_unit *unit, MPI_Op op, int root) {
    const struct cf_layout *at = &comm->layout;

    if (at->node_rank != root) {
        return PMPI_Send(from, slices->total, unit->type, root, TAG_REST, at->node_comm);
    }
    void *received = cf_temp(comm, CF_SLOT_LANE, slices->total, unit);
    if (received == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int q = 0; q < at->node_size[at->node]; q++) {
        if (q != root) {
            CF_TRY(PMPI_Recv(received, slices->total, unit->type, q, TAG_REST, at->node_comm,
                             MPI_STATUS_IGNORE));
        }
        CF_TRY(add(comm, q == root ? from : received, q, to, slices, unit, op));
    }
    return MPI_SUCCESS;
}
