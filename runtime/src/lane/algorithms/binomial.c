/* The binomial tree on a lane (specs/algorithms/binomial.toml), or one of a higher radix. */
#include "lane/lane.h"
#include "lane_algorithms.h"

static int radix_of(const struct cf_lane_call *call) {
    return cf_radix(call->parameter[CF_BINOMIAL_RADIX]);
}

/*
 * With 5 nodes and root 0: 0 -> 4, 0 -> 2, 0 -> 1, and 2 -> 3 after 2 has received; with radix 3: 0
 * -> 3, 0 -> 2, 0 -> 1 and 3 -> 4. Positions are counted from the root.
 */
int cf_binomial_bcast(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    MPI_Request send[CF_MAX_CHILDREN];
    struct cf_tree tree;
    int sends = 0;

    cf_tree_of(&tree, at, call->root, radix_of(call));
    if (tree.position > 0) {
        CF_TRY(cf_receive(call->to, call->count, call->unit,
                          cf_rank_at(at, call->root, tree.parent), 0, at->comm));
    }
    for (int i = tree.nchildren - 1; i >= 0; i--) {
        CF_TRY_OR_END(NULL, send, sends,
                      PMPI_Isend(call->to, call->count, call->unit->type,
                                 cf_rank_at(at, call->root, tree.children[i]), 0, at->comm,
                                 &send[sends]));
        sends++;
    }
    return cf_requests_wait(send, sends);
}

/*
 * The same tree upwards. With 5 nodes and root 0: 3 -> 2 and 1 -> 0, then 2 -> 0, then 4 -> 0. A
 * parent has the partial result of lower ranks, so x0 o .. o x4 is computed as ((x0 o x1) o (x2 o
 * x3)) o x4. The tree's root is the call's root if the op commutes, else rank 0, which sends the
 * result to the root.
 */
int cf_binomial_reduce(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const int top = call->commutes ? call->root : 0;
    struct cf_tree tree;

    cf_tree_of(&tree, at, top, radix_of(call));
    MPI_Aint apart = 0;
    char *room = cf_temps(call->comm, CF_SLOT_LANE, 2, call->count, unit, &apart);
    CF_TRY_MEMORY(room);
    /* Partial results are received alternately in two buffers. The turn is such that the root
     * receives the last one in its result buffer. */
    void *place[2] = {top == call->root && tree.position == 0 ? call->to : room, room + apart};
    const void *sum = call->from;
    for (int i = 0; i < tree.nchildren; i++) {
        void *next = place[(tree.nchildren - 1 - i) % 2];
        CF_TRY(cf_receive(next, call->count, unit, cf_rank_at(at, top, tree.children[i]), 0,
                          at->comm));
        CF_TRY(cf_combine(call->comm, sum, next, call->count, unit, call->op));
        sum = next;
    }
    if (tree.position > 0) {
        CF_TRY(cf_send(sum, call->count, unit, cf_rank_at(at, top, tree.parent), 0, at->comm));
    } else if (top != call->root) {
        return cf_send(sum, call->count, unit, call->root, 1, at->comm);
    }
    if (top != call->root && at->rank == call->root) {
        return cf_receive(call->to, call->count, unit, top, 1, at->comm);
    }
    return MPI_SUCCESS;
}

/*
 * With 5 nodes and root 0: 1 -> 0 with part 1, 3 -> 2 with part 3; 2 -> 0 with parts 2 3; 4 -> 0
 * with part 4. Each rank has the parts of its subtree contiguously. The root then rotates them to
 * node order.
 */
int cf_binomial_gather(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const int position = cf_position(at, call->root);
    struct cf_split parts;

    CF_TRY(cf_split_rotated(&parts, call->comm, CF_SLOT_PARTS, call->parts, call->root));
    void *held = at->rank == call->root && call->root == 0
                     ? call->to
                     : cf_temp(call->comm, CF_SLOT_LANE,
                               cf_tree_units(&parts, position, radix_of(call)), unit);
    CF_TRY_MEMORY(held);
    CF_TRY(cf_copy(call->comm, held, call->from, parts.counts[position], unit));
    CF_TRY(cf_tree_gather(&call->over, held, &parts, unit, call->root, radix_of(call)));
    if (at->rank != call->root) {
        return MPI_SUCCESS;
    }
    return cf_rotate(call->comm, call->to, held, parts.total,
                     parts.total - call->parts->displs[call->root], unit);
}

/*
 * The inverse of the gather. With 5 nodes and root 0: 0 -> 4 with part 4; 0 -> 2 with parts 2 3; 0
 * -> 1 with part 1, 2 -> 3 with part 3.
 */
int cf_binomial_scatter(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const int position = cf_position(at, call->root);
    struct cf_split parts;
    void *held = NULL;

    CF_TRY(cf_split_rotated(&parts, call->comm, CF_SLOT_PARTS, call->parts, call->root));
    if (at->rank == call->root && call->root == 0) {
        held = cf_at(unit, call->from, 0);
    } else {
        held = cf_temp(call->comm, CF_SLOT_LANE, cf_tree_units(&parts, position, radix_of(call)),
                       unit);
    }
    CF_TRY_MEMORY(held);
    if (at->rank == call->root) {
        CF_TRY(cf_rotate(call->comm, held, call->from, parts.total, call->parts->displs[call->root],
                         unit));
    }
    CF_TRY(cf_tree_scatter(&call->over, held, &parts, unit, call->root, radix_of(call)));
    return cf_copy(call->comm, call->to, held, parts.counts[position], unit);
}
