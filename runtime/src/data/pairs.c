#include "data/pairs.h"

#include "base/coroutine.h"
#include "data/shuffle.h"

/* The arrays of cf_pairs_begin, in one slot. */
struct room {
    int *sent;     /* [sources * CF_PAIRS_SUMS + size] to each rank of the node in turn */
    int *received; /* the rows */
    int *own;      /* [size] this rank's column, in node order */
    int *columns;
    int *counts, *displs; /* [sources] of sent */
    int *arriving, *begins;
};

static bool find_room(struct room *room, struct cf_comm *comm, const struct cf_pairs *pairs) {
    const size_t n = (size_t)pairs->sources, p = (size_t)pairs->size;
    const size_t sent = n * CF_PAIRS_SUMS + p;
    const size_t received = n * (CF_PAIRS_SUMS + (size_t)pairs->on_lane);
    const size_t all = sent + received + p + (size_t)pairs->targets * p + 4 * n;
    int *begin = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_PAIRS, all * sizeof *begin);

    if (begin == NULL) {
        return false;
    }
    *room = (struct room){.sent = begin, .received = begin + sent};
    room->own = room->received + received;
    room->columns = room->own + p;
    room->counts = room->columns + (size_t)pairs->targets * p;
    room->displs = room->counts + n;
    room->arriving = room->displs + n;
    room->begins = room->arriving + n;
    return true;
}

/* To each rank of the node go this rank's sums, and its blocks to the ranks on the lane that the
 * other carries. */
static void fill(const struct room *room, const struct cf_layout *at,
                 const struct cf_pairs *pairs) {
    const struct cf_blocks column = cf_column(pairs->blocks, pairs->size);
    const int each = CF_PAIRS_SUMS + pairs->on_lane;
    const int sent = cf_all_units(at, pairs->blocks), received = cf_all_units(at, &column);
    int filled = 0;

    for (int q = 0; q < pairs->sources; q++) {
        const int *targets = q < pairs->lanes->k ? cf_share_ranks(at, pairs->lanes, q, 0) : NULL;
        const int n = targets == NULL ? 0 : pairs->lanes->lane_size[q];
        room->displs[q] = filled;
        room->counts[q] = CF_PAIRS_SUMS + n;
        room->sent[filled + CF_PAIRS_SENT] = sent;
        room->sent[filled + CF_PAIRS_RECEIVED] = received;
        filled += CF_PAIRS_SUMS;
        for (int i = 0; i < n; i++) {
            room->sent[filled++] = cf_block(pairs->blocks, targets[i]);
        }
        room->arriving[q] = each;
        room->begins[q] = q * each;
    }
    for (int i = 0; i < pairs->size; i++) {
        room->own[i] = cf_block(&column, at->single.order[i]);
    }
}

int cf_pairs_begin(struct cf_pairs *pairs, struct cf_comm *comm) {
    const struct cf_layout *at = &comm->layout;
    const bool carries = at->node_rank < pairs->lanes->k;
    struct cf_split columns;
    struct cf_unit unit;
    struct room room;

    pairs->size = at->size;
    pairs->sources = at->node_size[at->node];
    pairs->on_lane = carries ? pairs->lanes->lane_size[at->node_rank] : 0;
    pairs->targets = carries ? pairs->lanes->share_size[at->node_rank * at->nodes + at->node] : 0;
    if (pairs->blocks->units == NULL) {
        return MPI_SUCCESS;
    }
    CF_TRY(find_room(&room, comm, pairs) ? MPI_SUCCESS : MPI_ERR_NO_MEM);
    fill(&room, at, pairs);
    CF_TRY(CF_CALL(Alltoallv, alltoallv, room.sent, room.counts, room.displs, MPI_INT,
                   room.received, room.arriving, room.begins, MPI_INT, at->node_comm));
    CF_TRY(cf_unit_of(MPI_INT, &unit));
    CF_TRY(
        cf_split_even(&columns, comm, CF_SLOT_PARTS, pairs->sources, pairs->sources * pairs->size));
    CF_TRY(cf_fold(comm, pairs->lanes, room.own, room.columns, &columns, &unit));
    pairs->rows = room.received;
    pairs->columns = room.columns;
    return MPI_SUCCESS;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Of a source's blocks to n ranks on the lane, from one on. */
static int sum_of_row(const struct cf_pairs *pairs, int source, int first, int n) {
    if (pairs->rows == NULL) {
        return n * pairs->blocks->each;
    }
    const int *row = cf_pairs_row(pairs, source) + CF_PAIRS_SUMS + first;
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += row[i];
    }
    return sum;
}

int cf_pairs_on_lane(const struct cf_pairs *pairs, int source) {
    return sum_of_row(pairs, source, 0, pairs->on_lane);
}

int cf_pairs_to_node(const struct cf_layout *at, const struct cf_pairs *pairs, int source,
                     int node) {
    const struct cf_lanes *lanes = pairs->lanes;
    const int lane = at->node_rank * at->nodes;
    const int first = lanes->share_begin[lane + node] - lanes->share_begin[lane];

    return sum_of_row(pairs, source, first, lanes->share_size[lane + node]);
}

int cf_pairs_from_source(const struct cf_pairs *pairs, int source) {
    int sum = 0;

    if (pairs->columns == NULL) {
        return pairs->targets * pairs->blocks->each;
    }
    for (int target = 0; target < pairs->targets; target++) {
        sum += cf_pair_received(pairs, target, source);
    }
    return sum;
}

int cf_outgoing_units(const struct cf_pairs *pairs) {
    int sum = 0;

    for (int source = 0; source < pairs->sources; source++) {
        sum += cf_pairs_on_lane(pairs, source);
    }
    return sum;
}

int cf_incoming_units(const struct cf_pairs *pairs) {
    int sum = 0;

    for (int source = 0; source < pairs->size; source++) {
        sum += cf_pairs_from_source(pairs, source);
    }
    return sum;
}

/* ---- splits ---------------------------------------------------------------------------------- */

static int split_by_sums(struct cf_split *split, struct cf_comm *comm, int slot,
                         const struct cf_pairs *pairs, int which) {
    CF_TRY(cf_split_begin(split, comm, slot, pairs->sources));
    for (int i = 0; i < pairs->sources; i++) {
        split->counts[i] =
            pairs->rows == NULL ? pairs->size * pairs->blocks->each : cf_pairs_row(pairs, i)[which];
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_rows(struct cf_split *split, struct cf_comm *comm, int slot,
                  const struct cf_pairs *pairs) {
    return split_by_sums(split, comm, slot, pairs, CF_PAIRS_SENT);
}

int cf_split_columns(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_pairs *pairs) {
    return split_by_sums(split, comm, slot, pairs, CF_PAIRS_RECEIVED);
}

int cf_split_collecting(struct cf_split *split, struct cf_comm *comm, int slot,
                        const struct cf_pairs *pairs) {
    CF_TRY(cf_split_begin(split, comm, slot, pairs->sources));
    for (int i = 0; i < pairs->sources; i++) {
        split->counts[i] = cf_pairs_on_lane(pairs, i);
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_departing(struct cf_split *split, struct cf_comm *comm, int slot,
                       const struct cf_pairs *pairs) {
    const struct cf_layout *at = &comm->layout;

    CF_TRY(cf_split_begin(split, comm, slot, at->nodes));
    for (int node = 0; node < at->nodes; node++) {
        split->counts[node] = 0;
        for (int i = 0; i < pairs->sources && pairs->on_lane > 0; i++) {
            split->counts[node] += cf_pairs_to_node(at, pairs, i, node);
        }
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

int cf_split_arriving(struct cf_split *split, struct cf_comm *comm, int slot,
                      const struct cf_pairs *pairs) {
    const struct cf_layout *at = &comm->layout;

    CF_TRY(cf_split_begin(split, comm, slot, at->nodes));
    for (int node = 0; node < at->nodes; node++) {
        const int first = at->single.share_begin[node];
        split->counts[node] = 0;
        for (int i = first; i < first + at->node_size[node]; i++) {
            split->counts[node] += cf_pairs_from_source(pairs, i);
        }
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}
