/*
 * Reductions of a node in one round, with the operands beside the flags (protocol: shared.c; order
 * of combining: shared_reduce.c).
 */
#include "node/shared_window.h"

/* Combines the operands of all ranks, which have arrived. This rank's own is read from the user's
 * memory unless to overwrote it: other ranks are reading the cache line of its slot. */
static int combine_slots(struct cf_comm *comm, const void *from, void *to, int count,
                         const struct cf_unit *unit, MPI_Op op, uint64_t round) {
    const struct cf_shared *shared = comm->shared;
    const size_t bytes = (size_t)count * (size_t)unit->size;
    const int last = shared->n - 1;
    void *unpacked = NULL;

    if (!unit->dense) {
        unpacked = cf_temp(comm, CF_SLOT_OPERAND, count, unit);
        CF_TRY_MEMORY(unpacked);
    }
    if (last == shared->me) {
        CF_TRY(cf_copy(comm, to, from, count, unit));
    } else {
        CF_TRY(cf_shared_get(comm, to, cf_shared_slot(shared, last, round)->data, bytes, unit));
    }
    for (int rank = last - 1; rank >= 0; rank--) {
        const void *operand = cf_shared_slot(shared, rank, round)->data;
        if (rank == shared->me && from != to) {
            operand = from;
        } else if (!unit->dense) {
            CF_TRY(cf_shared_get(comm, unpacked, operand, bytes, unit));
            operand = unpacked;
        }
        CF_TRY(cf_combine(comm, operand, to, count, unit, op));
    }
    return MPI_SUCCESS;
}

int cf_shared_reduce_small(struct cf_comm *comm, const void *from, void *to, int count,
                           const struct cf_unit *unit, MPI_Op op, int root) {
    struct cf_shared *shared = comm->shared;
    const uint64_t round = cf_shared_take(shared, 1);

    cf_shared_reserve(shared, round, true);
    int err = cf_shared_put(comm, cf_shared_slot(shared, shared->me, round)->data, from,
                            (size_t)count * (size_t)unit->size, unit);
    cf_shared_filled(shared, round);
    cf_shared_foresee(shared, round);
    if (root < 0 || shared->me == root) {
        cf_shared_await_others(shared, round);
        shared->all_done = round; /* they have left all rounds before */
        if (err == MPI_SUCCESS) {
            err = combine_slots(comm, from, to, count, unit, op, round);
        }
    }
    cf_shared_done_small(shared, round);
    return err;
}
