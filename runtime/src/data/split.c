/* See split.h. */
#include "data/split.h"

#include "data/tmpbuf.h"

int cf_split_begin(struct cf_split *split, struct cf_comm *comm, int slot, int n) {
    split->n = n;
    split->counts = cf_tmpbuf(&comm->tmpbufs, slot, 2 * (size_t)n * sizeof(int));
    split->displs = split->counts == NULL ? NULL : split->counts + n;
    return split->counts == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
}

int cf_split_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int units) {
    const int n = comm->layout.node_size[comm->layout.node];
    CF_TRY(cf_split_begin(split, comm, slot, n));
    const int each = units / lanes->k; /* divisions dominate the cost here */
    const int longer = units % lanes->k;
    for (int i = 0; i < n; i++) {
        split->counts[i] = i < lanes->k ? each + (i < longer) : 0;
    }
    cf_split_end(split);
    split->alike = lanes->k == n;
    return MPI_SUCCESS;
}

int cf_split_lanes(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_lanes *lanes, const struct cf_blocks *blocks) {
    const struct cf_layout *at = &comm->layout;
    const int n = at->node_size[at->node];
    CF_TRY(cf_split_begin(split, comm, slot, n));
    for (int i = 0; i < n; i++) {
        split->counts[i] = i < lanes->k ? cf_lane_units(at, lanes, i, blocks) : 0;
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_shares(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks) {
    const struct cf_layout *at = &comm->layout;
    CF_TRY(cf_split_begin(split, comm, slot, at->nodes));
    for (int node = 0; node < at->nodes; node++) {
        split->counts[node] = cf_share_units(at, lanes, lane, node, blocks);
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_blocks(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_blocks *blocks) {
    const struct cf_layout *at = &comm->layout;
    const int n = at->node_size[at->node];
    const int *ranks = cf_share_ranks(at, &at->single, 0, at->node);
    CF_TRY(cf_split_begin(split, comm, slot, n));
    for (int i = 0; i < n; i++) {
        split->counts[i] = cf_block(blocks, ranks[i]);
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_lane_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                         const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks) {
    const struct cf_layout *at = &comm->layout;

    CF_TRY(cf_split_begin(split, comm, slot, at->nodes));
    split->total = 0;
    split->uniform = split->alike = false; /* the regular collectives would ignore displs */
    for (int node = 0; node < at->nodes; node++) {
        const int units = cf_share_units(at, &at->single, 0, node, blocks);
        const int longer = units % lanes->k;
        split->counts[node] = units / lanes->k + (lane < longer);
        split->displs[node] =
            split->total + units / lanes->k * lane + (lane < longer ? lane : longer);
        split->total += units;
    }
    return MPI_SUCCESS;
}

int cf_split_even(struct cf_split *split, struct cf_comm *comm, int slot, int n, int units) {
    CF_TRY(cf_split_begin(split, comm, slot, n));
    for (int i = 0; i < n; i++) {
        split->counts[i] = units / n + (i < units % n);
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_rotated(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_split *other, int first) {
    CF_TRY(cf_split_begin(split, comm, slot, other->n));
    for (int i = 0; i < other->n; i++) {
        split->counts[i] = other->counts[(first + i) % other->n];
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_ranks(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_blocks *blocks) {
    CF_TRY(cf_split_begin(split, comm, slot, comm->layout.size));
    for (int rank = 0; rank < comm->layout.size; rank++) {
        split->counts[rank] = cf_block(blocks, rank);
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}
