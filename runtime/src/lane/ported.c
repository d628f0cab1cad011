/*
 * Bruck's algorithms with as many ports as a node has ranks (see ported.h).
 *
 * A node has its own part and those of the nodes after it. In a round, rank m gets as many from the
 * node (m + 1) times as far away, and the ranks of the node join what came. With 5 nodes of 2
 * ranks, node 3 has 3. In round 1 rank 0 receives 4 from node 4 and rank 1 receives 0 from node 0;
 * joined, the ranks have 3 4 0. In round 2 rank 0 receives 1 2 from node 1 (which had 1 2 3). All
 * then rotate 3 4 0 1 2 to node order.
 */
#include "lane/ported.h"
#include "base/coroutine.h"

#include "node/shared.h"

/* The parts have to 2 have - 1 are for port 0, the next ones for port 1, and so on, as far as they
 * exist: the units for each rank of this node, from displs[0] on. */
static int split_ports(struct cf_split *split, const struct cf_ported *of,
                       const struct cf_split *parts, int have) {
    const struct cf_layout *at = &of->comm->layout;

    CF_TRY(cf_split_even(split, of->comm, CF_SLOT_POSITIONS, at->node_size[at->node], 0));
    for (int m = 0; m < split->n; m++) {
        const MPI_Aint first = (MPI_Aint)(m + 1) * have;
        const int begin = first < parts->n && m < of->ports ? (int)first : parts->n;
        split->counts[m] =
            cf_split_units(parts, begin, begin + cf_units_within(begin, have, parts->n));
    }
    cf_split_end(split);
    return MPI_SUCCESS;
}

/* Each rank has its own part in its place. */
static int join(const struct cf_ported *of, void *to, const struct cf_split *ports) {
    const struct cf_layout *at = &of->comm->layout;

    if (of->shared) {
        const void *own = cf_at(of->unit, to, ports->displs[at->node_rank]);
        return cf_shared_allgather(of->comm, own, to, ports, of->unit);
    }
    return CF_CALL(Allgatherv, allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, ports->counts,
                   ports->displs, of->unit->type, at->node_comm);
}

static int exchange(const struct cf_ported *of, char *held, const struct cf_split *parts,
                    int have) {
    const struct cf_layout *at = &of->comm->layout;
    const MPI_Aint far = (MPI_Aint)(at->node_rank + 1) * have;
    void *more = cf_at(of->unit, held, parts->displs[have]);
    struct cf_split ports;

    CF_TRY(split_ports(&ports, of, parts, have));
    if (at->node_rank < of->ports && far < at->nodes) {
        const int sent = cf_units_within((int)far, have, at->nodes);
        const struct cf_message out = {held, cf_split_units(parts, 0, sent),
                                       (at->node - (int)far + at->nodes) % at->nodes};
        const struct cf_message in = {cf_at(of->unit, more, ports.displs[at->node_rank]),
                                      ports.counts[at->node_rank],
                                      (at->node + (int)far) % at->nodes};
        struct cf_batch batch = {.n = 0};
        const int err = cf_batch_add(&batch, out, in, of->unit, at->lane_comm);
        CF_TRY(cf_batch_end(&batch, err));
    }
    return join(of, more, &ports);
}

int cf_ported_allgather(const struct cf_ported *of, const void *from, void *to,
                        const struct cf_split *parts) {
    const struct cf_layout *at = &of->comm->layout;
    struct cf_split rotated;

    CF_TRY(cf_split_rotated(&rotated, of->comm, CF_SLOT_PARTS, parts, at->node));
    char *held = at->node == 0 ? to : cf_temp(of->comm, CF_SLOT_LANE, rotated.total, of->unit);
    if (at->node != 0 && held == NULL) {
        return MPI_ERR_NO_MEM;
    }
    CF_TRY(cf_copy(of->comm, held, from, rotated.counts[0], of->unit));
    for (int have = 1; have < at->nodes; have *= of->ports + 1) {
        CF_TRY(exchange(of, held, &rotated, have));
    }
    return cf_rotate(of->comm, to, held, rotated.total, rotated.total - parts->displs[at->node],
                     of->unit);
}

/* Combines packed vectors, the last first. */
static int combine(const struct cf_ported *of, const char *packed, int bytes, void *to, int count,
                   MPI_Op op) {
    const struct cf_unit *unit = of->unit;
    void *operand = unit->dense ? NULL : cf_temp(of->comm, CF_SLOT_LANE, count, unit);

    CF_TRY(!unit->dense && operand == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS);
    for (int node = of->comm->layout.nodes - 1; node >= 0; node--) {
        const char *vector = packed + (MPI_Aint)node * bytes;
        const bool is_last = node == of->comm->layout.nodes - 1;
        if (is_last || !unit->dense) {
            int position = 0;
            CF_TRY(cf_unpack(vector, bytes, &position, is_last ? to : operand, count, unit->type,
                             of->comm->layout.node_comm));
        }
        if (!is_last) {
            CF_TRY(cf_combine(of->comm, unit->dense ? vector : operand, to, count, unit, op));
        }
    }
    return MPI_SUCCESS;
}

/* The vectors stay apart to the end. So any number of nodes will do, and each rank combines them in
 * the same order. They travel packed, because N vectors of a type may overlap where one does not.
 */
int cf_ported_allreduce(const struct cf_ported *of, const void *from, void *to, int count,
                        MPI_Op op) {
    const struct cf_layout *at = &of->comm->layout;
    const int bytes = count * of->unit->size;
    struct cf_unit byte;
    struct cf_split parts;
    int position = 0;

    CF_TRY(cf_unit_of(MPI_BYTE, &byte));
    CF_TRY(cf_split_even(&parts, of->comm, CF_SLOT_UNITS, at->nodes, at->nodes * bytes));
    char *own = cf_tmpbuf(&of->comm->tmpbufs, CF_SLOT_PACK, (size_t)bytes);
    char *packed = cf_tmpbuf(&of->comm->tmpbufs, CF_SLOT_RESULT, (size_t)parts.total);
    if (own == NULL || packed == NULL) {
        return MPI_ERR_NO_MEM;
    }
    CF_TRY(cf_pack(from, count, of->unit->type, own, bytes, &position, at->node_comm));
    const struct cf_ported bytewise = {of->comm, &byte, of->ports, of->shared};
    CF_TRY(cf_ported_allgather(&bytewise, own, packed, &parts));
    return combine(of, packed, bytes, to, count, op);
}
