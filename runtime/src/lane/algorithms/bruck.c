/* Bruck's algorithms on a lane (specs/algorithms/bruck.toml). */
#include "lane/lane.h"
#include "lane_algorithms.h"

/*
 * Every rank has its own part and those of the ranks after it. Each step multiplies them by the
 * radix, by those of ranks after these. With 5 nodes and radix 2, rank 3 has 3; receives 4 from 4;
 * 0 1 from 0; the missing 2 from 2 (which had 2 3 4 0). It then rotates 3 4 0 1 2 to node order.
 */
int cf_bruck_allgather(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const int n = at->size;
    const int radix = cf_radix(call->parameter[CF_BRUCK_RADIX]);
    struct cf_split parts;

    CF_TRY(cf_split_rotated(&parts, call->comm, CF_SLOT_PARTS, call->parts, at->rank));
    void *held = at->rank == 0 ? call->to : cf_temp(call->comm, CF_SLOT_LANE, parts.total, unit);
    if (at->rank != 0 && held == NULL) {
        return MPI_ERR_NO_MEM;
    }
    CF_TRY(cf_copy(call->comm, held, call->from, parts.counts[0], unit));
    for (int have = 1; have < n; have *= radix) {
        struct cf_batch batch = {.n = 0};
        int err = MPI_SUCCESS;
        for (int far = have; far < n && far < radix * have && err == MPI_SUCCESS; far += have) {
            const int more = have < n - far ? have : n - far;
            const struct cf_message out = {held, cf_split_units(&parts, 0, more),
                                           (at->rank - far + n) % n};
            const struct cf_message in = {cf_at(unit, held, parts.displs[far]),
                                          cf_split_units(&parts, far, far + more),
                                          (at->rank + far) % n};
            err = cf_batch_add(&batch, out, in, unit, at->comm);
        }
        CF_TRY(cf_batch_end(&batch, err));
    }
    return cf_rotate(call->comm, call->to, held, parts.total,
                     parts.total - call->parts->displs[at->rank], unit);
}

/* Slots whose number has the digit `value` at the place of `far` = radix^i. */
struct digit {
    int radix;
    int far;
    int value;
};

/* Copies the blocks of these slots to contiguous memory, or back; adds their units to *moved. */
static int copy_slots(const struct cf_lane_call *call, void *slots, void *contiguous,
                      struct digit digit, bool back, int *moved) {
    const int block = call->parts->counts[0];

    for (int d = digit.far; d < call->over.size; d++) {
        if (d / digit.far % digit.radix == digit.value) {
            void *slot = cf_at(call->unit, slots, (MPI_Aint)d * block);
            void *there = cf_at(call->unit, contiguous, *moved);
            CF_TRY(
                cf_copy(call->comm, back ? slot : there, back ? there : slot, block, call->unit));
            *moved += block;
        }
    }
    return MPI_SUCCESS;
}

/*
 * A block whose target is d ranks further travels by the digits of d in base radix. With 4 nodes
 * and radix 2, the block from 0 to 3 goes to 1, then from there to 3. Slot d of a rank holds a
 * block that travels d ranks in all, whoever sent it. Each step moves the slots whose digit is not
 * 0. At the end slot d has the block from the rank d before. All blocks must have the same size.
 */
int cf_bruck_alltoall(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const int n = at->size;
    const int block = call->parts->counts[0];
    struct digit digit = {.radix = cf_radix(call->parameter[CF_BRUCK_RADIX])};

    if (!call->regular) {
        return cf_native_alltoall(call);
    }
    /* Of radix slots at most radix - 1 move in a step. */
    const MPI_Aint most = (MPI_Aint)n * (digit.radix - 1) / digit.radix * block;
    char *held = cf_temp(call->comm, CF_SLOT_LANE, call->parts->total + 2 * most, unit);
    CF_TRY_MEMORY(held);
    char *leaving = cf_at(unit, held, call->parts->total);
    char *coming = cf_at(unit, leaving, most);
    CF_TRY(cf_rotate(call->comm, held, call->from, call->parts->total,
                     call->parts->displs[at->rank], unit));
    for (digit.far = 1; digit.far < n; digit.far *= digit.radix) {
        struct cf_batch batch = {.n = 0};
        int moved = 0;
        int err = MPI_SUCCESS;
        for (digit.value = 1; digit.value < digit.radix && digit.value * digit.far < n;
             digit.value++) {
            const int far = digit.value * digit.far;
            const int first = moved;
            cf_note(&err, copy_slots(call, held, leaving, digit, false, &moved));
            if (err != MPI_SUCCESS) {
                break;
            }
            const struct cf_message out = {cf_at(unit, leaving, first), moved - first,
                                           (at->rank + far) % n};
            const struct cf_message in = {cf_at(unit, coming, first), moved - first,
                                          (at->rank - far + n) % n};
            cf_note(&err, cf_batch_add(&batch, out, in, unit, at->comm));
        }
        CF_TRY(cf_batch_end(&batch, err));
        moved = 0;
        for (digit.value = 1; digit.value < digit.radix; digit.value++) {
            CF_TRY(copy_slots(call, held, coming, digit, true, &moved));
        }
    }
    for (int d = 0; d < n; d++) {
        CF_TRY(cf_copy(call->comm,
                       cf_at(unit, call->to, call->arriving->displs[(at->rank - d + n) % n]),
                       cf_at(unit, held, (MPI_Aint)d * block), block, unit));
    }
    return MPI_SUCCESS;
}
