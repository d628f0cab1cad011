/*
 * The protocol by which the ranks of a node use their shared-memory window. (shared_open.c creates
 * it.)
 *
 * Rounds. A collective takes one or more rounds. All ranks of the node know how many, and number
 * the rounds of a communicator alike. In a round each rank may put one piece of data into its own
 * segment, where the others read it. There are three kinds of flags. Each flag is written by one
 * rank only, and only grows:
 *
 *   filled    in a slot: my data of round r can be read (r + 1)
 *   combined  my slice of round r is combined (r + 1); only in reductions that return results
 *   done      I will read nothing more of the rounds below this one
 *
 * The data of round r goes to slot r mod 16, beside the flag, or, if large, to buffer r mod 4.
 * Before writing, a rank waits until all ranks are done with round r - 16, or r - 4. This rule
 * alone keeps a rank from overtaking the others, within a collective or in the next one with
 * another root. The rank polls the others' flags only when the values it saw last do not suffice,
 * so mostly once in 16 or 4 rounds. A rank that reads nothing in a round is done with it once it
 * has filled the next one. A reader of round r finds exactly r + 1 in the slot, because nobody
 * refills the slot before this reader is done.
 *
 * Collectives of one small round announce done once for four rounds. A rank that has left all
 * rounds before r has therefore announced at least r - 3. That suffices for every wait in round r,
 * for a slot or a buffer. A collective of several rounds needs more from its second round on, so
 * each rank announces its deferred rounds when it begins one.
 *
 * Trace: rank 0 sends two large pieces to rank 1 in a bcast that begins with round 4. Buffers 0 and
 * 1 were last used in rounds 0 and 1.
 *
 *   rank 0                                     rank 1
 *   round 4: waits for done[1] >= 1, sees 4    waits for filled[0], slot 4, >= 5
 *     copies piece 0 into buffer 0
 *     filled, slot 4 := 5                      sees 5, copies buffer 0 out, done[1] := 5
 *   round 5: needs done[1] >= 2, knows 4       waits for filled[0], slot 5, >= 6
 *     copies piece 1 into buffer 1
 *     filled, slot 5 := 6; done[0] := 5, 6     sees 6, copies buffer 1 out, done[1] := 6
 *
 * Memory model. Flags are lock-free C11 atomics, stored with release and loaded with acquire. A
 * rank that sees a flag sees the data written before it. Data is not overwritten before its readers
 * are done. Lock-free atomics are address-free, so this order holds between processes as between
 * threads. The MPI standard allows such loads and stores in an MPI window of the unified memory
 * model (checked in shared_open.c), inside an access epoch: MPI_Win_lock_all holds for the window's
 * whole life. The standard asks for MPI_Win_sync only as a memory barrier, which the atomics are.
 * When a window is opened, MPI_Win_sync is called before and after a collective, and then all ranks
 * see the flags' first values. Zhou et al. (2020), section 4.5, must test plain flags for equality;
 * atomic flags can be tested for "at least".
 *
 * Progress. A rank that waits here may hold back a message which the awaited rank needs first.
 * cf_shared_wait therefore calls MPI for progress.
 */
#include "node/shared_window.h"

#include "base/coroutine.h"
#include "base/patience.h"

enum { UNUSED_TAG = 32767 }; /* no message on a node_comm has it */

/* ---- waiting --------------------------------------------------------------------------------- */

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

struct awaited {
    const struct cf_shared *shared;
    const cf_shared_flag *flag;
    uint64_t least, value;
};

static bool has_come(void *what) {
    struct awaited *at = what;

    at->value = atomic_load_explicit(at->flag, memory_order_acquire);
    if (at->value < at->least) {
        pause_briefly();
    }
    return at->value >= at->least;
}

static void let_mpi_progress(void *what) {
    const struct awaited *at = what;
    int found = 0;

    (void)PMPI_Iprobe(MPI_ANY_SOURCE, UNUSED_TAG, at->shared->node_comm, &found, MPI_STATUS_IGNORE);
}

uint64_t cf_shared_wait_long(const struct cf_shared *shared, const cf_shared_flag *flag,
                             uint64_t least) {
    /* 200 polls take a few microseconds. */
    static _Thread_local struct cf_patience patience = {.most = 200, .least = 8, .now = 200};
    struct awaited at = {.shared = shared, .flag = flag, .least = least};

    cf_poll(&patience, has_come, let_mpi_progress, &at);
    return at.value;
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
        return MPI_SUCCESS; /* it waits for itself */
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
            shared->all_done = round; /* they have left all rounds before */
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

/* MPI_Barrier orders no plain loads and stores, hence the fences. (noinline: GCC refuses fences
 * under the thread sanitizer where this is inlined.) */
static __attribute__((noinline)) int wait_for_node(struct cf_comm *comm) {
    atomic_thread_fence(memory_order_seq_cst);
    const int err = CF_CALL(Barrier, barrier, comm->layout.node_comm);
    atomic_thread_fence(memory_order_seq_cst);
    return err;
}

int cf_node_wait(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited,
                 bool by_barrier) {
    return comm->shared != NULL && !by_barrier ? cf_shared_meet(comm, waiting, awaited)
                                               : wait_for_node(comm);
}
