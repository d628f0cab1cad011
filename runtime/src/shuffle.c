/* Steps that no component collective performs: among the ranks of a node, and reorderings on one
 * rank. */
#include "variant.h"

enum { TAG_FOLD = 1, TAG_UNFOLD, TAG_MOVE };

/* Receives the blocks of the ranks whose lane this rank carries, one after the other, own block
 * first. */
int cf_fold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
            int count, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    int err = MPI_SUCCESS;

    if (at->node_rank >= lanes->k) {
        return PMPI_Send(from, count, unit->type, at->node_rank % lanes->k, TAG_FOLD,
                         at->node_comm);
    }
    err = cf_copy(comm, to, from, count, unit);
    MPI_Aint position = count;
    for (int q = at->node_rank + lanes->k; q < at->node_size[at->node] && err == MPI_SUCCESS;
         q += lanes->k) {
        err = PMPI_Recv(cf_at(unit, to, position), count, unit->type, q, TAG_FOLD, at->node_comm,
                        MPI_STATUS_IGNORE);
        position += count;
    }
    return err;
}

int cf_unfold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
              int count, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    int err = MPI_SUCCESS;

    if (at->node_rank >= lanes->k) {
        return PMPI_Recv(to, count, unit->type, at->node_rank % lanes->k, TAG_UNFOLD, at->node_comm,
                         MPI_STATUS_IGNORE);
    }
    MPI_Aint position = count;
    for (int q = at->node_rank + lanes->k; q < at->node_size[at->node] && err == MPI_SUCCESS;
         q += lanes->k) {
        err =
            PMPI_Send(cf_at(unit, from, position), count, unit->type, q, TAG_UNFOLD, at->node_comm);
        position += count;
    }
    return err == MPI_SUCCESS ? cf_copy(comm, to, from, count, unit) : err;
}

int cf_move(struct cf_comm *comm, int source, int target, const void *from, void *to, int count,
            const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;

    if (source == target) {
        return at->node_rank == source ? cf_copy(comm, to, from, count, unit) : MPI_SUCCESS;
    }
    if (at->node_rank == source) {
        return PMPI_Send(from, count, unit->type, target, TAG_MOVE, at->node_comm);
    }
    if (at->node_rank == target) {
        return PMPI_Recv(to, count, unit->type, source, TAG_MOVE, at->node_comm, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}

int cf_reorder_to_lanes(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, int count, const struct cf_unit *unit) {
    int err = MPI_SUCCESS;

    for (MPI_Aint i = 0; i < comm->layout.size && err == MPI_SUCCESS; i++) {
        err = cf_copy(comm, cf_at(unit, to, i * count),
                      cf_at(unit, from, (MPI_Aint)lanes->order[i] * count), count, unit);
    }
    return err;
}

int cf_reorder_to_ranks(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, int count, const struct cf_unit *unit) {
    int err = MPI_SUCCESS;

    for (MPI_Aint i = 0; i < comm->layout.size && err == MPI_SUCCESS; i++) {
        err = cf_copy(comm, cf_at(unit, to, (MPI_Aint)lanes->order[i] * count),
                      cf_at(unit, from, i * count), count, unit);
    }
    return err;
}

int cf_regroup_by_target_node(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, int count, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const int *shares = lanes->share_size + lane * at->nodes;
    MPI_Aint begin = 0;
    MPI_Aint filled = 0;
    int err = MPI_SUCCESS;

    for (int node = 0; node < at->nodes; node++) {
        for (MPI_Aint source = 0; source < at->node_size[at->node] && err == MPI_SUCCESS;
             source++) {
            const MPI_Aint block = source * lanes->lane_size[lane] + begin;
            err = cf_copy(comm, cf_at(unit, to, filled * count), cf_at(unit, from, block * count),
                          shares[node] * count, unit);
            filled += shares[node];
        }
        begin += shares[node];
    }
    return err;
}

int cf_regroup_by_target_rank(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, int count, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const MPI_Aint targets = lanes->share_size[lane * at->nodes + at->node];
    MPI_Aint filled = 0;
    int err = MPI_SUCCESS;

    for (MPI_Aint target = 0; target < targets; target++) {
        for (MPI_Aint source = 0; source < at->size && err == MPI_SUCCESS; source++) {
            err = cf_copy(comm, cf_at(unit, to, filled * count),
                          cf_at(unit, from, (source * targets + target) * count), count, unit);
            filled++;
        }
    }
    return err;
}
