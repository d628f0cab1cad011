/*
 * The protocol by which the ranks of a node use their window. (shared_open.c makes it.)
 *
 * Rounds. A collective takes one round or more, of which all ranks of the node know the number; the
 * rounds of a communicator are counted through, and all ranks count alike. In a round each rank may
 * put one piece into memory of its own, where the others read it. Only three kinds of flags exist,
 * each written by one rank, and they only grow:
 *
 *   filled    in a slot: my piece of round r is in place (r + 1)
 *   combined  my slice of round r is combined (r + 1); only in reductions that hand results back
 *   done      I will read nothing more of the rounds below this one
 *
 * A piece of round r goes to slot r mod 16, beside the flag, or, where it is large, to buffer
 * r mod 4. Before that its rank waits until all are done with round r - 16, or r - 4: that is all
 * that keeps a rank from overtaking, be it in this collective or in the next one with another root.
 * It looks at the others' flags only when what it saw last does not suffice, so mostly once in 16
 * or 4 rounds. A rank that has nothing to read in a round is done with it at once. Who reads round
 * r finds exactly r + 1 in the slot: nobody fills it again before this reader is done.
 *
 * Collectives of one small round say done for four of them at once: a rank that has left all rounds
 * before r has said r - 3 or more, which is all that a wait in round r asks for, be it for a slot
 * or a buffer. A collective of more rounds asks for more from its second one on; so every rank says
 * what it owes when it begins one.
 *
 * Trace: rank 0 sends two large pieces to rank 1 in a bcast that begins with round 4 (so that
 * buffers 0 and 1 have been used, in rounds 0 and 1).
 *
 *   rank 0                                     rank 1
 *   round 4: waits for done[1] >= 1, sees 4    waits for filled[0], slot 4, >= 5
 *     copies piece 0 into buffer 0
 *     filled, slot 4 := 5; done[0] := 5        sees 5, copies buffer 0 out, done[1] := 5
 *   round 5: needs done[1] >= 2, knows 4       waits for filled[0], slot 5, >= 6
 *     copies piece 1 into buffer 1
 *     filled, slot 5 := 6; done[0] := 6        sees 6, copies buffer 1 out, done[1] := 6
 *
 * Memory model. Flags are C11 atomics without locks, set with release and tested with acquire: the
 * piece is visible to whom the flag is, and what a reader has read before it was done is not
 * overwritten before. That is an order between processes as between threads, because such atomics
 * are free of addresses. The MPI standard allows such loads and stores in a window of the unified
 * memory model, checked below, inside an access epoch (MPI_Win_lock_all for the window's whole
 * life); it asks for MPI_Win_sync only as the memory barrier that the atomics are. At the start
 * MPI_Win_sync stands on both sides of a collective, after which all see the flags' first values.
 * The test is "at least" where the paper (papers/hybrid, section 4.5) has to test for equality,
 * because its flags are plain memory.
 *
 * Progress. A rank that waits here may owe another one a message that this other needs before it
 * can come: cf_shared_wait calls into MPI.
 */
#include "node/shared_window.h"

#include <sched.h>

enum {
    MOST_SPINS = 200, /* some microseconds */
    LEAST_SPINS = 8,
    UNUSED_TAG = 32767, /* nobody sends it on a node_comm */
};

/* ---- waiting --------------------------------------------------------------------------------- */

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * How often a thread looks at a flag before it lets others run: twice as often after it was right
 * to stay, half as often after it was not. Where ranks are more than cores, whoever is waited for
 * may be waiting for this core.
 */
static _Thread_local int patience = MOST_SPINS;

uint64_t cf_shared_wait_long(const struct cf_shared *shared, const cf_shared_flag *flag,
                             uint64_t least) {
    uint64_t value = 0;

    for (int spin = 0; spin < patience; spin++) {
        value = atomic_load_explicit(flag, memory_order_acquire);
        if (value >= least) {
            patience = 2 * patience < MOST_SPINS ? 2 * patience : MOST_SPINS;
            return value;
        }
        pause_briefly();
    }
    patience = patience / 2 > LEAST_SPINS ? patience / 2 : LEAST_SPINS;
    while ((value = atomic_load_explicit(flag, memory_order_acquire)) < least) {
        int found = 0;
        (void)sched_yield();
        (void)PMPI_Iprobe(MPI_ANY_SOURCE, UNUSED_TAG, shared->node_comm, &found, MPI_STATUS_IGNORE);
    }
    return value;
}

void cf_shared_reserve_long(struct cf_shared *shared, uint64_t least) {
    uint64_t all_done = UINT64_MAX;

    for (int rank = 0; rank < shared->n; rank++) {
        const uint64_t done = cf_shared_wait(shared, &shared->segments[rank]->done, least);
        all_done = done < all_done ? done : all_done;
    }
    shared->all_done = all_done;
}

static inline bool is_in(struct cf_ranks ranks, int rank) {
    return ranks.begin <= rank && rank < ranks.end;
}

int cf_shared_meet(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited) {
    struct cf_shared *shared = comm->shared;
    const int me = shared->me;
    const bool one_waits = waiting.end - waiting.begin == 1;

    if (one_waits && awaited.end - awaited.begin == 1 && waiting.begin == awaited.begin) {
        return MPI_SUCCESS; /* for itself */
    }
    const uint64_t round = cf_shared_take(shared, 1);

    if (is_in(awaited, me) && !(one_waits && is_in(waiting, me))) {
        cf_shared_reserve(shared, round, true);
        cf_shared_filled(shared, round);
        cf_shared_foresee(shared, round);
    }
    if (is_in(waiting, me)) {
        for (int i = 1; i < shared->n; i++) {
            const int rank = me + i < shared->n ? me + i : me + i - shared->n;
            if (is_in(awaited, rank)) {
                cf_shared_await(shared, rank, round);
            }
        }
        if (awaited.end - awaited.begin == shared->n) {
            shared->all_done = round; /* they came after all rounds before */
        }
    }
    cf_shared_done_small(shared, round);
    return MPI_SUCCESS;
}

int cf_shared_barrier(struct cf_comm *comm) {
    const struct cf_ranks all = {0, comm->shared->n};

    return cf_shared_meet(comm, all, all);
}

/* ---- typed memory ---------------------------------------------------------------------------- */

int cf_shared_pack(struct cf_comm *comm, void *place, const void *from, size_t bytes,
                   const struct cf_unit *unit) {
    int position = 0;

    return cf_pack(from, (int)(bytes / (size_t)unit->size), unit->type, place, (int)bytes,
                   &position, comm->layout.node_comm);
}

int cf_shared_unpack(struct cf_comm *comm, void *to, const void *place, size_t bytes,
                     const struct cf_unit *unit) {
    int position = 0;

    return cf_unpack(place, (int)bytes, &position, to, (int)(bytes / (size_t)unit->size),
                     unit->type, comm->layout.node_comm);
}

/* By the MPI library, which orders no plain loads and stores. (Not inlined: there GCC refuses
 * fences under the thread sanitizer.) */
static __attribute__((noinline)) int wait_for_node(struct cf_comm *comm) {
    atomic_thread_fence(memory_order_seq_cst);
    const int err = PMPI_Barrier(comm->layout.node_comm);
    atomic_thread_fence(memory_order_seq_cst);
    return err;
}

int cf_node_wait(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited,
                 bool by_barrier) {
    return comm->shared != NULL && !by_barrier ? cf_shared_meet(comm, waiting, awaited)
                                               : wait_for_node(comm);
}
