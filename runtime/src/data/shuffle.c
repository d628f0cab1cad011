/* See shuffle.h. */
#include "data/shuffle.h"

#include "base/coroutine.h"

enum { TAG_FOLD = 1, TAG_UNFOLD, TAG_RELEASE, TAG_MOVE, TAG_PERMUTE, TAG_REST = 16 };

/* Receives the parts of the other ranks on its lane one after the other, after its own part. */
int cf_fold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
            const struct cf_split *parts, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const int own = parts->counts[at->node_rank];
    MPI_Aint position = own;

    if (at->node_rank >= lanes->k) {
        return CF_CALL(Send, send, from, own, unit->type, at->node_rank % lanes->k, TAG_FOLD,
                       at->node_comm);
    }
    CF_TRY(cf_copy(comm, to, from, own, unit));
    for (int q = at->node_rank + lanes->k; q < parts->n; q += lanes->k) {
        CF_TRY(cf_call_receive(cf_at(unit, to, position), parts->counts[q], unit->type, q, TAG_FOLD,
                               at->node_comm));
        position += parts->counts[q];
    }
    return MPI_SUCCESS;
}

int cf_unfold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
              const struct cf_split *parts, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const int own = parts->counts[at->node_rank];
    MPI_Aint position = own;

    if (at->node_rank >= lanes->k) {
        return cf_call_receive(to, own, unit->type, at->node_rank % lanes->k, TAG_UNFOLD,
                               at->node_comm);
    }
    for (int q = at->node_rank + lanes->k; q < parts->n; q += lanes->k) {
        CF_TRY(CF_CALL(Send, send, cf_at(unit, from, position), parts->counts[q], unit->type, q,
                       TAG_UNFOLD, at->node_comm));
        position += parts->counts[q];
    }
    return cf_copy(comm, to, from, own, unit);
}

int cf_release(struct cf_comm *comm, const struct cf_lanes *lanes) {
    const struct cf_layout *at = &comm->layout;

    if (at->node_rank >= lanes->k) {
        return cf_call_receive(NULL, 0, MPI_BYTE, at->node_rank % lanes->k, TAG_RELEASE,
                               at->node_comm);
    }
    for (int q = at->node_rank + lanes->k; q < at->node_size[at->node]; q += lanes->k) {
        CF_TRY(CF_CALL(Send, send, NULL, 0, MPI_BYTE, q, TAG_RELEASE, at->node_comm));
    }
    return MPI_SUCCESS;
}

int cf_move(struct cf_comm *comm, int source, int target, const void *from, void *to, int count,
            const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;

    if (source == target) {
        return at->node_rank == source ? cf_copy(comm, to, from, count, unit) : MPI_SUCCESS;
    }
    if (at->node_rank == source) {
        return CF_CALL(Send, send, from, count, unit->type, target, TAG_MOVE, at->node_comm);
    }
    if (at->node_rank == target) {
        return cf_call_receive(to, count, unit->type, source, TAG_MOVE, at->node_comm);
    }
    return MPI_SUCCESS;
}

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
        return CF_CALL(Send, send, from, slices->total, unit->type, root, TAG_REST, at->node_comm);
    }
    void *received = cf_temp(comm, CF_SLOT_LANE, slices->total, unit);
    CF_TRY_MEMORY(received);
    for (int q = 0; q < at->node_size[at->node]; q++) {
        if (q != root) {
            CF_TRY(
                cf_call_receive(received, slices->total, unit->type, q, TAG_REST, at->node_comm));
        }
        CF_TRY(add(comm, q == root ? from : received, q, to, slices, unit, op));
    }
    return MPI_SUCCESS;
}

/* Exchanges count units over order_comm, by a tag of its own. */
static int exchange(struct cf_comm *comm, const void *from, int target, void *to, int source,
                    int count, const struct cf_unit *unit) {
    if (target == comm->layout.rank) {
        return cf_copy(comm, to, from, count, unit);
    }
    const struct cf_call_part out = {(void *)from, count, unit->type, target};
    const struct cf_call_part in = {to, count, unit->type, source};
    return cf_call_exchange(out, in, TAG_PERMUTE, comm->layout.order_comm);
}

/* The position of this rank in node order. */
static int place_in_order(const struct cf_layout *at) {
    int place = 0;

    while (at->single.order[place] != at->rank) {
        place++;
    }
    return place;
}

int cf_permute_to_node_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;

    return exchange(comm, from, at->single.order[at->rank], to, place_in_order(at), count, unit);
}

int cf_permute_to_rank_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;

    return exchange(comm, from, place_in_order(at), to, at->single.order[at->rank], count, unit);
}

/* Memory for n positions in a buffer; NULL when out of memory. */
static MPI_Aint *positions_of(struct cf_comm *comm, int n) {
    return cf_tmpbuf(&comm->tmpbufs, CF_SLOT_POSITIONS, (size_t)n * sizeof(MPI_Aint));
}

/* The first unit of each rank's block, for blocks in rank order; NULL when out of memory. */
static const MPI_Aint *begins_by_rank(struct cf_comm *comm, const struct cf_blocks *blocks) {
    MPI_Aint *begins = positions_of(comm, comm->layout.size);

    if (begins != NULL) {
        begins[0] = 0;
        for (int rank = 1; rank < comm->layout.size; rank++) {
            begins[rank] = begins[rank - 1] + cf_block(blocks, rank - 1);
        }
    }
    return begins;
}

/* A list of ranks whose blocks are contiguous in a packed buffer. */
struct ranks {
    const int *ranks;
    int n;
};

static struct ranks ranks_of_all(const struct cf_comm *comm, const struct cf_lanes *lanes) {
    return (struct ranks){lanes->order, comm->layout.size};
}

static struct ranks ranks_of_share(const struct cf_comm *comm, const struct cf_lanes *lanes,
                                   int lane) {
    const struct cf_layout *at = &comm->layout;

    return (struct ranks){cf_share_ranks(at, lanes, lane, at->node),
                          lanes->share_size[lane * at->nodes + at->node]};
}

static struct ranks ranks_of_lane(const struct cf_comm *comm, const struct cf_lanes *lanes,
                                  int lane) {
    return (struct ranks){cf_share_ranks(&comm->layout, lanes, lane, 0), lanes->lane_size[lane]};
}

/* Packs the blocks of some ranks, from all blocks in rank order. */
static int collect(struct cf_comm *comm, struct ranks of, const void *all, void *packed,
                   const struct cf_blocks *blocks, const struct cf_unit *unit) {
    const MPI_Aint *begins = begins_by_rank(comm, blocks);
    MPI_Aint filled = 0;

    CF_TRY_MEMORY(begins);
    for (int i = 0; i < of.n; i++) {
        const int units = cf_block(blocks, of.ranks[i]);
        CF_TRY(cf_copy(comm, cf_at(unit, packed, filled), cf_at(unit, all, begins[of.ranks[i]]),
                       units, unit));
        filled += units;
    }
    return MPI_SUCCESS;
}

/* The inverse of collect. */
static int place(struct cf_comm *comm, struct ranks of, const void *packed, void *all,
                 const struct cf_blocks *blocks, const struct cf_unit *unit) {
    const MPI_Aint *begins = begins_by_rank(comm, blocks);
    MPI_Aint taken = 0;

    CF_TRY_MEMORY(begins);
    for (int i = 0; i < of.n; i++) {
        const int units = cf_block(blocks, of.ranks[i]);
        CF_TRY(cf_copy(comm, cf_at(unit, all, begins[of.ranks[i]]), cf_at(unit, packed, taken),
                       units, unit));
        taken += units;
    }
    return MPI_SUCCESS;
}

int cf_reorder_to_lanes(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit) {
    return collect(comm, ranks_of_all(comm, lanes), from, to, blocks, unit);
}

int cf_reorder_to_ranks(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit) {
    return place(comm, ranks_of_all(comm, lanes), from, to, blocks, unit);
}

int cf_collect_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                     void *to, const struct cf_blocks *blocks, const struct cf_unit *unit) {
    return collect(comm, ranks_of_share(comm, lanes, lane), from, to, blocks, unit);
}

int cf_collect_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                    void *to, const struct cf_blocks *blocks, const struct cf_unit *unit) {
    return collect(comm, ranks_of_lane(comm, lanes, lane), from, to, blocks, unit);
}

int cf_place_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                   void *to, const struct cf_blocks *blocks, const struct cf_unit *unit) {
    return place(comm, ranks_of_share(comm, lanes, lane), from, to, blocks, unit);
}

int cf_place_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                  void *to, const struct cf_blocks *blocks, const struct cf_unit *unit) {
    return place(comm, ranks_of_lane(comm, lanes, lane), from, to, blocks, unit);
}

int cf_regroup_by_target_node(struct cf_comm *comm, const struct cf_pairs *pairs, const void *from,
                              void *to, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    MPI_Aint *taken = positions_of(comm, pairs->sources); /* read so far, by source */
    MPI_Aint filled = 0;

    CF_TRY_MEMORY(taken);
    for (int s = 0; s < pairs->sources; s++) {
        taken[s] = filled;
        filled += cf_pairs_on_lane(pairs, s);
    }
    filled = 0;
    for (int node = 0; node < at->nodes; node++) {
        for (int s = 0; s < pairs->sources; s++) {
            const int units = cf_pairs_to_node(at, pairs, s, node);
            CF_TRY(
                cf_copy(comm, cf_at(unit, to, filled), cf_at(unit, from, taken[s]), units, unit));
            taken[s] += units;
            filled += units;
        }
    }
    return MPI_SUCCESS;
}

int cf_regroup_by_target_rank(struct cf_comm *comm, const struct cf_pairs *pairs, const void *from,
                              void *to, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    MPI_Aint *taken = positions_of(comm, at->size); /* read so far, by source in node order */
    MPI_Aint filled = 0;

    CF_TRY_MEMORY(taken);
    for (int s = 0; s < at->size; s++) {
        taken[s] = filled;
        filled += cf_pairs_from_source(pairs, s);
    }
    filled = 0;
    for (int target = 0; target < pairs->targets; target++) {
        for (int s = 0; s < at->size; s++) {
            const int units = cf_pair_received(pairs, target, s);
            CF_TRY(
                cf_copy(comm, cf_at(unit, to, filled), cf_at(unit, from, taken[s]), units, unit));
            taken[s] += units;
            filled += units;
        }
    }
    return MPI_SUCCESS;
}
