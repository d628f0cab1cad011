/* Splits of a buffer over the members of a node or a lane. */
#include "variant.h"

static int split_begin(struct cf_split *split, struct cf_comm *comm, int slot, int n) {
    split->n = n;
    split->counts = cf_tmpbuf(&comm->tmpbufs, slot, 2 * (size_t)n * sizeof(int));
    split->displs = split->counts == NULL ? NULL : split->counts + n;
    return split->counts == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
}

static void split_end(struct cf_split *split) {
    split->total = 0;
    split->uniform = true;
    for (int i = 0; i < split->n; i++) {
        split->displs[i] = split->total;
        split->total += split->counts[i];
        split->uniform = split->uniform && split->counts[i] == split->counts[0];
    }
}

int cf_split_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int units) {
    const int n = comm->layout.node_size[comm->layout.node];
    const int err = split_begin(split, comm, slot, n);

    if (err != MPI_SUCCESS) {
        return err;
    }
    for (int i = 0; i < n; i++) {
        split->counts[i] = i < lanes->k ? units / lanes->k + (i < units % lanes->k) : 0;
    }
    split_end(split);
    return MPI_SUCCESS;
}

int cf_split_lanes(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_lanes *lanes, int block) {
    const int n = comm->layout.node_size[comm->layout.node];
    const int err = split_begin(split, comm, slot, n);

    if (err != MPI_SUCCESS) {
        return err;
    }
    for (int i = 0; i < n; i++) {
        split->counts[i] = i < lanes->k ? lanes->lane_size[i] * block : 0;
    }
    split_end(split);
    return MPI_SUCCESS;
}

/* counts[node] = share of the node on the lane x block x the ranks of here (or of that node), or
 * x 1. */
enum weight { ONE, RANKS_HERE, RANKS_THERE };

static int split_nodes(struct cf_split *split, struct cf_comm *comm, int slot, const int *shares,
                       int block, enum weight weight) {
    const struct cf_layout *at = &comm->layout;
    const int err = split_begin(split, comm, slot, at->nodes);

    if (err != MPI_SUCCESS) {
        return err;
    }
    for (int node = 0; node < at->nodes; node++) {
        const int share =
            weight == RANKS_THERE ? shares[at->node] * at->node_size[node] : shares[node];
        split->counts[node] = share * block * (weight == RANKS_HERE ? at->node_size[at->node] : 1);
    }
    split_end(split);
    return MPI_SUCCESS;
}

int cf_split_shares(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int lane, int block) {
    return split_nodes(split, comm, slot, lanes->share_size + lane * comm->layout.nodes, block,
                       ONE);
}

int cf_split_departing(struct cf_split *split, struct cf_comm *comm, int slot,
                       const struct cf_lanes *lanes, int lane, int block) {
    return split_nodes(split, comm, slot, lanes->share_size + lane * comm->layout.nodes, block,
                       RANKS_HERE);
}

int cf_split_arriving(struct cf_split *split, struct cf_comm *comm, int slot,
                      const struct cf_lanes *lanes, int lane, int block) {
    return split_nodes(split, comm, slot, lanes->share_size + lane * comm->layout.nodes, block,
                       RANKS_THERE);
}

int cf_split_uniform(struct cf_split *split, struct cf_comm *comm, int slot, int n, int count) {
    const int err = split_begin(split, comm, slot, n);

    if (err != MPI_SUCCESS) {
        return err;
    }
    for (int i = 0; i < n; i++) {
        split->counts[i] = count;
    }
    split_end(split);
    return MPI_SUCCESS;
}

int cf_split_even(struct cf_split *split, struct cf_comm *comm, int slot, int n, int units) {
    const int err = split_begin(split, comm, slot, n);

    if (err != MPI_SUCCESS) {
        return err;
    }
    for (int i = 0; i < n; i++) {
        split->counts[i] = units / n + (i < units % n);
    }
    split_end(split);
    return MPI_SUCCESS;
}
