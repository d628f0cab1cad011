#include "data/by_datatype.h"

#include "base/coroutine.h"
#include "data/split.h"

enum { TAG_HAND_OUT = 17 };

/* A type of n times `length` elements, each `stride` bytes after the one before. The next element
 * of this type begins `next` bytes after this one. */
static int make(MPI_Datatype element, int length, int n, MPI_Aint stride, MPI_Aint next,
                MPI_Datatype *type) {
    MPI_Datatype blocks = MPI_DATATYPE_NULL;

    CF_TRY(PMPI_Type_create_hvector(n, length, stride, element, &blocks));
    const int err = PMPI_Type_create_resized(blocks, 0, next, type);
    CF_TRY(PMPI_Type_free(&blocks));
    CF_TRY(err);
    return PMPI_Type_commit(type);
}

/* Frees the type and returns the first error. */
static int release(MPI_Datatype *type, int err) {
    const int freed = PMPI_Type_free(type);

    return err == MPI_SUCCESS ? freed : err;
}

/* The ranks of this node on the lane that this rank carries; 0 if it carries none. */
static int share_of(const struct cf_layout *at, const struct cf_lanes *lanes) {
    return at->node_rank < lanes->k ? lanes->share_size[at->node_rank * at->nodes] : 0;
}

/* What a component collective over the node moves between a buffer in rank order and the carriers'
 * buffers of their lanes. root: of a gather or scatter. */
struct move {
    struct cf_comm *comm;
    const struct cf_lanes *lanes;
    const void *from;
    void *to;
    int block;
    const struct cf_unit *unit;
    int root;
};

/*
 * The shares may differ by a rank, but a collective's receives (and its displacements) are of one
 * datatype. So the first n / k ranks of every share go in one pass, and in a second one the last
 * rank of the shares that have one more. Of n = 5 ranks on k = 2 lanes, 0 and 2, 1 and 3 go in the
 * first; 4 in the second.
 */
struct pass {
    bool full;             /* all ranks carry a lane: the collective needs no counts */
    struct cf_split lanes; /* for each rank of the node: 1 if its lane takes part */
    MPI_Datatype
        in_ranks;         /* blocks of a lane in rank order; the next lane begins a block further */
    MPI_Aint rank_offset; /* units before the first of them */
    MPI_Datatype in_lane; /* the same blocks in this rank's buffer of its lane */
    int lane_count;       /* elements of that type; 0 if this rank's lane takes no part */
    MPI_Aint lane_offset;
};

typedef int collective(const struct pass *pass, const struct move *move);

/* One pass: `columns` ranks of the shares of the first `taking_part` lanes, after `before` ones. */
static int run_pass(const struct move *move, collective *call, int columns, int taking_part,
                    int before) {
    const struct cf_layout *at = &move->comm->layout;
    const MPI_Aint bytes = move->block * move->unit->extent;
    const int n = at->node_size[0], share = share_of(at, move->lanes);
    const bool takes_part = at->node_rank < taking_part, whole = share == columns;
    struct pass pass = {.full = move->lanes->k == n,
                        .in_ranks = MPI_DATATYPE_NULL,
                        .rank_offset = (MPI_Aint)before * move->lanes->k * move->block,
                        .in_lane = move->unit->type,
                        .lane_count = takes_part ? at->nodes * columns * move->block : 0,
                        .lane_offset = (MPI_Aint)before * move->block};
    MPI_Datatype row = MPI_DATATYPE_NULL;

    CF_TRY(cf_split_even(&pass.lanes, move->comm, CF_SLOT_PARTS, n, taking_part));
    CF_TRY(make(move->unit->type, move->block, columns, move->lanes->k * bytes, n * bytes, &row));
    CF_TRY(release(&row, make(row, 1, at->nodes, n * bytes, bytes, &pass.in_ranks)));
    if (takes_part && !whole) {
        pass.lane_count = 1;
        CF_TRY(make(move->unit->type, columns * move->block, at->nodes, share * bytes,
                    at->nodes * share * bytes, &pass.in_lane));
    }
    int err = call(&pass, move);
    if (takes_part && !whole) {
        err = release(&pass.in_lane, err);
    }
    return release(&pass.in_ranks, err);
}

static int interleave(const struct move *move, collective *call) {
    const int n = move->comm->layout.node_size[0], k = move->lanes->k;

    if (move->block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    CF_TRY(run_pass(move, call, n / k, k, 0));
    return n % k == 0 ? MPI_SUCCESS : run_pass(move, call, 1, n % k, n / k);
}

static int allgather(const struct pass *pass, const struct move *move) {
    void *data = cf_at(move->unit, move->to, pass->rank_offset);
    const MPI_Datatype type = pass->in_ranks;
    MPI_Comm node = move->comm->layout.node_comm;

    return pass->full ? CF_CALL(Allgather, allgather, MPI_IN_PLACE, 1, type, data, 1, type, node)
                      : CF_CALL(Allgatherv, allgatherv, MPI_IN_PLACE, 0, type, data,
                                pass->lanes.counts, pass->lanes.displs, type, node);
}

static int gather(const struct pass *pass, const struct move *move) {
    const void *from = cf_at(move->unit, move->from, pass->lane_offset);
    void *to = cf_at(move->unit, move->to, pass->rank_offset);
    MPI_Comm node = move->comm->layout.node_comm;

    return pass->full
               ? CF_CALL(Gather, gather, from, pass->lane_count, pass->in_lane, to, 1,
                         pass->in_ranks, move->root, node)
               : CF_CALL(Gatherv, gatherv, from, pass->lane_count, pass->in_lane, to,
                         pass->lanes.counts, pass->lanes.displs, pass->in_ranks, move->root, node);
}

static int scatter(const struct pass *pass, const struct move *move) {
    const void *from = cf_at(move->unit, move->from, pass->rank_offset);
    void *to = cf_at(move->unit, move->to, pass->lane_offset);
    MPI_Comm node = move->comm->layout.node_comm;

    return pass->full
               ? CF_CALL(Scatter, scatter, from, 1, pass->in_ranks, to, pass->lane_count,
                         pass->in_lane, move->root, node)
               : CF_CALL(Scatterv, scatterv, from, pass->lanes.counts, pass->lanes.displs,
                         pass->in_ranks, to, pass->lane_count, pass->in_lane, move->root, node);
}

static int alltoall(const struct pass *pass, const struct move *move) {
    const struct cf_layout *at = &move->comm->layout;
    const void *from = cf_at(move->unit, move->from, pass->rank_offset);
    void *to = cf_at(move->unit, move->to, pass->lane_offset);
    const int n = at->node_size[0];
    struct cf_split arriving;

    if (pass->full) {
        return CF_CALL(Alltoall, alltoall, from, 1, pass->in_ranks, to, pass->lane_count,
                       pass->in_lane, at->node_comm);
    }
    CF_TRY(cf_split_even(&arriving, move->comm, CF_SLOT_POSITIONS, n, n * pass->lane_count));
    return CF_CALL(Alltoallv, alltoallv, from, pass->lanes.counts, pass->lanes.displs,
                   pass->in_ranks, to, arriving.counts, arriving.displs, pass->in_lane,
                   at->node_comm);
}

int cf_allgather_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, void *data,
                             int block, const struct cf_unit *unit) {
    return interleave(&(struct move){comm, lanes, data, data, block, unit, 0}, allgather);
}

int cf_gather_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                          void *to, int block, const struct cf_unit *unit, int root) {
    return interleave(&(struct move){comm, lanes, from, to, block, unit, root}, gather);
}

int cf_scatter_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                           void *to, int block, const struct cf_unit *unit, int root) {
    return interleave(&(struct move){comm, lanes, from, to, block, unit, root}, scatter);
}

int cf_alltoall_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                            void *to, int block, const struct cf_unit *unit) {
    return interleave(&(struct move){comm, lanes, from, to, block, unit, 0}, alltoall);
}

int cf_allgather_apart(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                       void *to, int block, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const int n = at->node_size[0], share = share_of(at, lanes);
    const MPI_Aint bytes = block * unit->extent;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype apart = MPI_DATATYPE_NULL;

    CF_TRY(make(unit->type, block, share, lanes->k * bytes, n * bytes, &apart));
    void *out = cf_at(unit, to, (MPI_Aint)at->node_rank * block);
    /* Open MPI chooses its algorithm by the send count, also in place, where the type is the
     * receive type: it must be as many bytes on all ranks. */
    const bool in_place = from == cf_at(unit, to, (MPI_Aint)at->rank * block);
    return release(&apart, in_place ? CF_CALL(Allgather, allgather, MPI_IN_PLACE, 1, apart, out, 1,
                                              apart, at->lane_comm)
                                    : CF_CALL(Allgather, allgather, from, share * block, unit->type,
                                              out, 1, apart, at->lane_comm));
}

int cf_alltoall_apart(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                      void *to, int block, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const int n = at->node_size[0], blocks = share_of(at, lanes) * block;
    const MPI_Aint bytes = blocks * unit->extent;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype node = MPI_DATATYPE_NULL;

    /* The blocks from a source to a node are at source * nodes + node. */
    CF_TRY(make(unit->type, blocks, n, at->nodes * bytes, bytes, &node));
    return release(&node, CF_CALL(Alltoall, alltoall, from, 1, node, to, n * blocks, unit->type,
                                  at->lane_comm));
}

int cf_hand_out_interleaved(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                            void *to, int block, const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    const int share = share_of(at, lanes), me = at->node_rank, all = at->size * block;
    const MPI_Aint bytes = block * unit->extent;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    if (share == 0) {
        return cf_call_receive(to, all, unit->type, me % lanes->k, TAG_HAND_OUT, at->node_comm);
    }
    MPI_Datatype mine = MPI_DATATYPE_NULL;
    int err = MPI_SUCCESS;

    CF_TRY(make(unit->type, block, at->size, share * bytes, bytes, &mine));
    for (int i = 1; i < share && err == MPI_SUCCESS; i++) {
        err = CF_CALL(Send, send, cf_at(unit, from, (MPI_Aint)i * block), 1, mine,
                      me + i * lanes->k, TAG_HAND_OUT, at->node_comm);
    }
    if (err == MPI_SUCCESS) {
        const struct cf_call_part out = {(void *)from, 1, mine, me};
        const struct cf_call_part in = {to, all, unit->type, me};
        err = cf_call_exchange(out, in, TAG_HAND_OUT, at->node_comm);
    }
    return release(&mine, err);
}
