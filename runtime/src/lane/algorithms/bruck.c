/* Bruck's algorithms on a lane (specs/algorithms/bruck.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * Every rank has the parts of itself and of the next ranks, and doubles them by those of the rank
 * behind them. With 5 nodes: 3 has 3; gets 4 from 4; 0 1 from 0; the missing 2 from 2 (which had 2
 * 3 4 0). It then turns 3 4 0 1 2 round.
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
 * A block that has d ranks to go travels by the binary digits of d: with 4 nodes, the block of 0
 * for 3 goes to 1, from there to 3. What a rank holds at place d has d ranks to go in all, whoever
 * sent it, so that each step moves every place whose digit is set, and at the end place d holds the
 * block of the rank d before. Blocks must be of one size for that.
 */
int cf_bruck_alltoall(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const int n = at->nodes;
    const int block = call->parts->counts[0];

    if (!call->regular) {
        return cf_native_alltoall(call);
    }
    /* At most every second place moves in a step. */
    char *held = cf_temp(call->comm, CF_SLOT_LANE, 2 * (MPI_Aint)call->parts->total, unit);
    if (held == NULL) {
        return MPI_ERR_NO_MEM;
    }
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
