/* Bruck's algorithms on a lane (specs/algorithms/bruck.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * Every rank has its own part and those of the ranks after it. Each step doubles them by those of a
 * rank after these. With 5 nodes, rank 3 has 3; receives 4 from 4; 0 1 from 0; the missing 2 from 2
 * (which had 2 3 4 0). It then rotates 3 4 0 1 2 to node order.
 */
int cf_bruck_allgather(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    struct cf_split parts;

    CF_TRY(cf_split_rotated(&parts, call->comm, CF_SLOT_PARTS, call->parts, at->node));
    void *held = at->node == 0 ? call->to : cf_temp(call->comm, CF_SLOT_LANE, parts.total, unit);
    if (at->node != 0 && held == NULL) {
        return MPI_ERR_NO_MEM;
    }
    CF_TRY(cf_copy(call->comm, held, call->from, parts.counts[0], unit));
    for (int have = 1; have < at->nodes; have *= 2) {
        const int more = have < at->nodes - have ? have : at->nodes - have;
        const int before = (at->node - have + at->nodes) % at->nodes;
        const int after = (at->node + have) % at->nodes;
        const struct cf_message out = {held, cf_split_units(&parts, 0, more), before};
        const struct cf_message in = {cf_at(unit, held, parts.displs[have]),
                                      cf_split_units(&parts, have, have + more), after};
        CF_TRY(cf_send_receive(out, in, unit, at->lane_comm));
    }
    return cf_rotate(call->comm, call->to, held, parts.total,
                     parts.total - call->parts->displs[at->node], unit);
}

/*
 * A block whose target is d ranks further travels by the binary digits of d. With 4 nodes, the
 * block from 0 to 3 goes to 1, then from there to 3. Slot d of a rank holds a block that travels d
 * ranks in all, whoever sent it. Each step moves the slots whose digit is set. At the end slot d
 * has the block from the rank d before. All blocks must have the same size.
 */
int cf_bruck_alltoall(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const int n = at->nodes;
    const int block = call->parts->counts[0];

    if (!call->regular) {
        return cf_native_alltoall(call);
    }
    /* At most every second slot moves in a step. */
    char *held = cf_temp(call->comm, CF_SLOT_LANE, 2 * (MPI_Aint)call->parts->total, unit);
    CF_TRY_MEMORY(held);
    char *leaving = cf_at(unit, held, call->parts->total);
    char *coming = cf_at(unit, leaving, (MPI_Aint)(n / 2) * block);
    CF_TRY(cf_rotate(call->comm, held, call->from, call->parts->total,
                     call->parts->displs[at->node], unit));
    for (int far = 1; far < n; far *= 2) {
        int moved = 0;
        for (int d = far; d < n; d++) {
            if ((d & far) != 0) {
                CF_TRY(cf_copy(call->comm, cf_at(unit, leaving, moved),
                               cf_at(unit, held, (MPI_Aint)d * block), block, unit));
                moved += block;
            }
        }
        CF_TRY(cf_send_receive((struct cf_message){leaving, moved, (at->node + far) % n},
                               (struct cf_message){coming, moved, (at->node - far + n) % n}, unit,
                               at->lane_comm));
        moved = 0;
        for (int d = far; d < n; d++) {
            if ((d & far) != 0) {
                CF_TRY(cf_copy(call->comm, cf_at(unit, held, (MPI_Aint)d * block),
                               cf_at(unit, coming, moved), block, unit));
                moved += block;
            }
        }
    }
    for (int d = 0; d < n; d++) {
        CF_TRY(cf_copy(call->comm,
                       cf_at(unit, call->to, call->arriving->displs[(at->node - d + n) % n]),
                       cf_at(unit, held, (MPI_Aint)d * block), block, unit));
    }
    return MPI_SUCCESS;
}
