/*
 * The Bine butterfly on a lane (specs/algorithms/bine.toml). The ranks that take part have indices.
 * In a step an even index meets the one at that step's distance after it, an odd one that before
 * it. With 8 indices: 0-1 2-3 4-5 6-7, then 1-2 3-4 5-6 7-0, then 0-3 2-5 4-7 6-1.
 */
#include "lane/lane.h"
#include "lane_algorithms.h"

/* 1 - 2 + 4 - ..., step + 1 terms: 1, -1, 3, -5, 11, ... */
static int distance(int step) {
    const int power = 1 << (step + 1);
    return (step % 2 == 0 ? 1 + power : 1 - power) / 3;
}

static int peer_in(const struct cf_butterfly *who, int step) {
    const int far = who->index % 2 == 0 ? distance(step) : -distance(step);
    return cf_active_rank(who, (who->index + far) & (who->active - 1));
}

/*
 * Which half of its parts an index keeps in a step: other than its peer in the step, the same as
 * all that later steps reach from it. The distances of step s and later ones differ by multiples of
 * 2^(s + 1). So from an even index later steps reach the even ones that are equal to it modulo
 * 2^(step + 2), and the odd ones at the next step's distance after those. With 8 indices, 0 3 4 7
 * first keep the lower half; then 0 3 and 2 5; then the even ones.
 */
static int half_of(const struct cf_butterfly *who, int index, int step) {
    if (who->active >> (step + 1) == 1) { /* the last one */
        return index % 2;
    }
    const int even = index % 2 == 0 ? index : index - distance(step + 1);
    return even >> (step + 1) & 1;
}

/* The part that an index keeps after all steps. With 8 indices: 0 7 4 1 2 5 6 3. */
static int part_of(const struct cf_butterfly *who, int index) {
    int part = 0;
    for (int step = 0; who->active >> step > 1; step++) {
        part = 2 * part + half_of(who, index, step);
    }
    return part;
}

/* Of the parts that a rank and its peer have before a step of the reduction: those that the rank
 * keeps, and those that the peer keeps. */
struct halves {
    struct cf_message kept;
    struct cf_message given;
};

static struct halves halves_of(const struct cf_lane_call *call, const struct cf_butterfly *who,
                               const struct cf_split *parts, void *data, int step) {
    const int n = who->active >> (step + 1);
    const int kept = part_of(who, who->index) / n * n;
    const int given = kept ^ n;
    const int peer = peer_in(who, step);
    return (struct halves){
        {cf_at(call->unit, data, parts->displs[kept]), cf_split_units(parts, kept, kept + n), peer},
        {cf_at(call->unit, data, parts->displs[given]), cf_split_units(parts, given, given + n),
         peer}};
}

static int exchange(const struct cf_lane_call *call, struct cf_message out, struct cf_message in) {
    struct cf_batch batch = {.n = 0};
    return cf_batch_end(&batch, cf_batch_add(&batch, out, in, call->unit, call->over.comm));
}

/* data has this rank's operand; in the end its part there has the sum. */
static int reduce_parts(const struct cf_lane_call *call, const struct cf_butterfly *who,
                        const struct cf_split *parts, void *data, void *coming) {
    for (int step = 0; who->active >> step > 1; step++) {
        const struct halves halves = halves_of(call, who, parts, data, step);
        struct cf_message in = halves.kept;
        in.data = coming;
        CF_TRY(exchange(call, halves.given, in));
        CF_TRY(cf_combine(call->comm, coming, halves.kept.data, in.count, call->unit, call->op));
    }
    return MPI_SUCCESS;
}

/* The way back: data has this rank's part, and in the end all. */
static int gather_parts(const struct cf_lane_call *call, const struct cf_butterfly *who,
                        const struct cf_split *parts, void *data) {
    int step = 0;
    while (who->active >> step > 1) {
        step++;
    }
    while (step-- > 0) {
        const struct halves halves = halves_of(call, who, parts, data, step);
        CF_TRY(exchange(call, halves.kept, halves.given));
    }
    return MPI_SUCCESS;
}

/* The parts of the active ranks, in the order of part_of; each has the units of the ranks it acts
 * for. */
static int split_by_part(struct cf_split *parts, const struct cf_lane_call *call,
                         const struct cf_butterfly *who) {
    CF_TRY(cf_split_begin(parts, call->comm, CF_SLOT_PARTS, who->active));
    for (int i = 0; i < who->active; i++) {
        parts->counts[part_of(who, i)] =
            cf_split_units(call->parts, cf_active_first(who, i), cf_active_rank(who, i) + 1);
    }
    cf_split_end(parts);
    return MPI_SUCCESS;
}

/* Copies all units between data in rank order and in the order of parts. */
static int reorder(const struct cf_lane_call *call, const struct cf_butterfly *who,
                   const struct cf_split *parts, void *by_part, void *by_rank, bool to_parts) {
    for (int i = 0; i < who->active; i++) {
        const int part = part_of(who, i);
        void *here = cf_at(call->unit, by_part, parts->displs[part]);
        void *there = cf_at(call->unit, by_rank, call->parts->displs[cf_active_first(who, i)]);
        CF_TRY(cf_copy(call->comm, to_parts ? here : there, to_parts ? there : here,
                       parts->counts[part], call->unit));
    }
    return MPI_SUCCESS;
}

/* With 5 nodes, 0 first sends its part to 1. Then 1 (with 0 1) and 4 exchange, as do 2 and 3; then
 * 1 and 2, and 3 and 4. At last 1 sends all to 0. */
int cf_bine_allgather(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const struct cf_butterfly who = cf_butterfly_of(at->rank, at->size, 2);
    const int *counts = call->parts->counts;
    struct cf_split parts;

    if (who.index < 0) {
        CF_TRY(cf_send(call->from, counts[at->rank], unit, at->rank + 1, 0, at->comm));
        return cf_receive(call->to, call->parts->total, unit, at->rank + 1, 0, at->comm);
    }
    CF_TRY(split_by_part(&parts, call, &who));
    void *data = cf_temp(call->comm, CF_SLOT_LANE, parts.total, unit);
    CF_TRY_MEMORY(data);
    MPI_Aint own = parts.displs[part_of(&who, who.index)];
    if (who.stands_for_two) {
        CF_TRY(cf_receive(cf_at(unit, data, own), counts[at->rank - 1], unit, at->rank - 1, 0,
                          at->comm));
        own += counts[at->rank - 1];
    }
    CF_TRY(cf_copy(call->comm, cf_at(unit, data, own), call->from, counts[at->rank], unit));
    CF_TRY(gather_parts(call, &who, &parts, data));
    CF_TRY(reorder(call, &who, &parts, data, call->to, false));
    if (who.stands_for_two) {
        return cf_send(call->to, call->parts->total, unit, at->rank - 1, 0, at->comm);
    }
    return MPI_SUCCESS;
}

/*
 * With 5 nodes, 0 first sends x0 to 1. Then 1 and 2 exchange halves of x0 o x1 and x2, as do 3 and
 * 4; then 1 and 4, and 2 and 3, quarters. At last 1 sends its sum of part 0 to 0. The operands are
 * not combined in rank order, so non-commutative ops use the MPI library.
 */
int cf_bine_reduce_scatter(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const struct cf_butterfly who = cf_butterfly_of(at->rank, at->size, 2);
    const int *counts = call->parts->counts;
    struct cf_split parts;
    MPI_Aint apart = 0;

    if (!call->commutes) {
        return cf_native_reduce_scatter(call);
    }
    if (who.index < 0) {
        CF_TRY(cf_send(call->from, call->parts->total, unit, at->rank + 1, 0, at->comm));
        return cf_receive(call->to, counts[at->rank], unit, at->rank + 1, 0, at->comm);
    }
    CF_TRY(split_by_part(&parts, call, &who));
    char *sums = cf_temps(call->comm, CF_SLOT_LANE, 2, parts.total, unit, &apart);
    CF_TRY_MEMORY(sums);
    void *coming = sums + apart;
    void *first = cf_at(unit, call->from, 0);
    if (who.stands_for_two) {
        CF_TRY(cf_receive(coming, parts.total, unit, at->rank - 1, 0, at->comm));
        CF_TRY(cf_combine(call->comm, call->from, coming, parts.total, unit, call->op));
        first = coming;
    }
    CF_TRY(reorder(call, &who, &parts, sums, first, true));
    CF_TRY(reduce_parts(call, &who, &parts, sums, coming));
    MPI_Aint own = parts.displs[part_of(&who, who.index)];
    if (who.stands_for_two) {
        CF_TRY(
            cf_send(cf_at(unit, sums, own), counts[at->rank - 1], unit, at->rank - 1, 0, at->comm));
        own += counts[at->rank - 1];
    }
    return cf_copy(call->comm, call->to, cf_at(unit, sums, own), counts[at->rank], unit);
}

/* Both, on equal parts of the vector. Each part is summed by one rank, so all ranks get the same
 * bits. */
int cf_bine_allreduce(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const struct cf_butterfly who = cf_butterfly_of(at->rank, at->size, 2);
    struct cf_split parts;

    if (!call->commutes) {
        return cf_native_allreduce(call);
    }
    if (who.index < 0) {
        CF_TRY(cf_send(call->from, call->count, unit, at->rank + 1, 0, at->comm));
        return cf_receive(call->to, call->count, unit, at->rank + 1, 0, at->comm);
    }
    CF_TRY(cf_split_even(&parts, call->comm, CF_SLOT_PARTS, who.active, call->count));
    void *coming = cf_temp(call->comm, CF_SLOT_LANE, call->count, unit);
    CF_TRY_MEMORY(coming);
    CF_TRY(cf_copy(call->comm, call->to, call->from, call->count, unit));
    if (who.stands_for_two) {
        CF_TRY(cf_receive(coming, call->count, unit, at->rank - 1, 0, at->comm));
        CF_TRY(cf_combine(call->comm, coming, call->to, call->count, unit, call->op));
    }
    CF_TRY(reduce_parts(call, &who, &parts, call->to, coming));
    CF_TRY(gather_parts(call, &who, &parts, call->to));
    if (who.stands_for_two) {
        return cf_send(call->to, call->count, unit, at->rank - 1, 0, at->comm);
    }
    return MPI_SUCCESS;
}
