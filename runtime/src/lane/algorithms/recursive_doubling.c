/* Recursive doubling on a lane (specs/algorithms/recursive_doubling.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * With 5 nodes, 0 first sends its part to 1. Then 1 (with 0 1) and 2 exchange, as do 3 and 4; then
 * 1 and 3, and 2 and 4. At last 1 sends all to 0. The parts that a rank has are always consecutive.
 */
int cf_recursive_doubling_allgather(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const struct cf_doubling who = cf_doubling_of(at->node, at->nodes);

    CF_TRY(cf_copy(call->comm, cf_at(unit, call->to, call->parts->displs[at->node]), call->from,
                   call->parts->counts[at->node], unit));
    if (who.index < 0) {
        CF_TRY(cf_send(cf_at(unit, call->to, call->parts->displs[at->node]),
                       call->parts->counts[at->node], unit, at->node + 1, 0, at->lane_comm));
        return cf_receive(call->to, call->parts->total, unit, at->node + 1, 0, at->lane_comm);
    }
    if (who.stands_for_two) {
        CF_TRY(cf_receive(cf_at(unit, call->to, call->parts->displs[at->node - 1]),
                          call->parts->counts[at->node - 1], unit, at->node - 1, 0, at->lane_comm));
    }
    for (int far = 1; far < who.active; far *= 2) {
        const int partner = who.index ^ far;
        const int mine = who.index / far * far;
        const int theirs = partner / far * far;
        const int sent = cf_doubling_first(&who, mine);
        const int got = cf_doubling_first(&who, theirs);
        const struct cf_message out = {
            cf_at(unit, call->to, call->parts->displs[sent]),
            cf_split_units(call->parts, sent, cf_doubling_first(&who, mine + far)),
            cf_doubling_rank(&who, partner)};
        const struct cf_message in = {
            cf_at(unit, call->to, call->parts->displs[got]),
            cf_split_units(call->parts, got, cf_doubling_first(&who, theirs + far)),
            cf_doubling_rank(&who, partner)};
        CF_TRY(cf_send_receive(out, in, unit, at->lane_comm));
    }
    if (who.stands_for_two) {
        return cf_send(call->to, call->parts->total, unit, at->node - 1, 0, at->lane_comm);
    }
    return MPI_SUCCESS;
}

/*
 * With 5 nodes, 0 first sends x0 to 1, which has x0 o x1. Then 1 and 2 compute (x0 o x1) o x2, 3
 * and 4 compute x3 o x4, and then 1 and 3, and 2 and 4, the whole. At last 1 sends it to 0. Both
 * partners put the lower ranks' partial result on the left, so all ranks combine in rank order and
 * get the same bits.
 */
int cf_recursive_doubling_allreduce(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    const struct cf_doubling who = cf_doubling_of(at->node, at->nodes);
    void *sums[2] = {call->to, NULL};

    if (who.index < 0) {
        CF_TRY(cf_send(call->from, call->count, unit, at->node + 1, 0, at->lane_comm));
        return cf_receive(call->to, call->count, unit, at->node + 1, 0, at->lane_comm);
    }
    sums[1] = cf_temp(call->comm, CF_SLOT_LANE, call->count, unit);
    CF_TRY_MEMORY(sums[1]);
    CF_TRY(cf_copy(call->comm, sums[0], call->from, call->count, unit));
    if (who.stands_for_two) {
        CF_TRY(cf_receive(sums[1], call->count, unit, at->node - 1, 0, at->lane_comm));
        CF_TRY(cf_combine(call->comm, sums[1], sums[0], call->count, unit, call->op));
    }
    for (int far = 1; far < who.active; far *= 2) {
        const int partner = cf_doubling_rank(&who, who.index ^ far);
        CF_TRY(cf_exchange_sums(call->comm, partner, sums, call->count, unit, call->op));
    }
    CF_TRY(cf_copy(call->comm, call->to, sums[0], call->count, unit));
    if (who.stands_for_two) {
        return cf_send(call->to, call->count, unit, at->node - 1, 0, at->lane_comm);
    }
    return MPI_SUCCESS;
}

/*
 * Groups of 1, 2, 4, ... ranks exchange their sums with the neighbouring group. Sums from lower
 * ranks are combined on the left of the result. With 5 nodes, 3 receives x2, then x0 o x1; 4
 * receives nothing twice, then x0 o .. o x3. An incomplete group is the last one, so no group needs
 * its sum. Rank 0 does not write its result.
 */
int cf_recursive_doubling_exscan(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_layout *at = &call->comm->layout;
    bool first = true;
    MPI_Aint apart = 0;
    char *room = cf_temps(call->comm, CF_SLOT_LANE, 2, call->count, unit, &apart);

    CF_TRY_MEMORY(room);
    void *sums[2] = {room, room + apart};
    CF_TRY(cf_copy(call->comm, sums[0], call->from, call->count, unit));
    for (int far = 1; far < at->nodes; far *= 2) {
        const int partner = at->node ^ far;
        if (partner >= at->nodes) {
            continue;
        }
        CF_TRY(cf_exchange_sums(call->comm, partner, sums, call->count, unit, call->op));
        if (partner < at->node) {
            CF_TRY(first ? cf_copy(call->comm, call->to, sums[1], call->count, unit)
                         : cf_combine(call->comm, sums[1], call->to, call->count, unit, call->op));
            first = false;
        }
    }
    return MPI_SUCCESS;
}
