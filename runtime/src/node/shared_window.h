/* The shared-memory window behind shared.h: its memory, its flags, and how a rank waits for a flag.
 * shared.c describes the protocol, shared_open.c creates and frees the window. */
#ifndef COLLFORGE_SHARED_WINDOW_H_INCLUDED
#define COLLFORGE_SHARED_WINDOW_H_INCLUDED

#include "node/shared.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

enum {
    CF_SHARED_LINE = 128,   /* two cache lines: some processors fetch them in pairs */
    CF_SHARED_SLOTS = 16,   /* rounds under way in slots */
    CF_SHARED_SMALL = 240,  /* data bytes beside a flag */
    CF_SHARED_BUFFERS = 4,  /* rounds under way in buffers */
    CF_SHARED_LATE = 4,     /* small rounds per update of done; at most CF_SHARED_BUFFERS */
    CF_SHARED_PIECE = 32768 /* bytes in a round */
};

#if ATOMIC_LLONG_LOCK_FREE != 2
#error "flags between processes need lock-free 64-bit atomics"
#endif

typedef _Atomic uint64_t cf_shared_flag;

/* A flag and a small piece of data. They share a cache line, or a few. */
struct cf_shared_slot {
    cf_shared_flag filled; /* round + 1 */
    uint64_t where;        /* in reductions: cf_piece_find of the operand; 0: it is in the window */
    alignas(16) unsigned char data[CF_SHARED_SMALL];
};

/* One rank's segment of the shared-memory window. Only this rank writes its flags. */
struct cf_shared_segment {
    alignas(CF_SHARED_LINE) cf_shared_flag done;     /* number of rounds this rank has left */
    alignas(CF_SHARED_LINE) cf_shared_flag combined; /* last round combined, + 1 */
    alignas(CF_SHARED_LINE) struct cf_shared_slot slots[CF_SHARED_SLOTS];
    alignas(CF_SHARED_LINE) unsigned char buffers[CF_SHARED_BUFFERS][CF_SHARED_PIECE];
};

/* The stream of packed bytes that one rank sends in a collective: its length, and the interval
 * [begin, end) of it that this rank copies into `to`. */
struct cf_shared_flow {
    size_t total;
    size_t begin, end;
    void *to;
};

/* Contiguous units of a user's buffer. */
struct cf_shared_part {
    const void *from;
    size_t bytes;
};

struct cf_shared {
    MPI_Win window; /* MPI_WIN_NULL on a node of one rank */
    MPI_Info info;  /* hints for the MPI window */
    MPI_Comm node_comm;
    int n;
    int me;
    int *members;           /* [n] ranks in MPI_COMM_WORLD */
    uint64_t number[2];     /* unique among windows, equal on all ranks of the window */
    struct cf_shared *next; /* next in the list of kept windows */
    uint64_t rounds;        /* so far; equal on all ranks between collectives */
    uint64_t all_done;      /* all ranks are known to have left this many rounds */
    struct cf_shared_segment **segments; /* [n] */
    struct cf_shared_flow *flows;        /* [n] scratch of shared_move.c */
    struct cf_shared_part *parts;        /* [n] */
};

/* One hybrid piece: memory that all ranks of the node have mapped (collforge_hybrid_alloc). */
struct cf_piece {
    MPI_Win window;
    bool locked; /* MPI_Win_lock_all was called */
    void *address;
    size_t bytes;
    struct cf_piece *next; /* in the same order on all ranks of the package */
};

/* 1 + the position of these bytes in the communicator's hybrid pieces, counted as if the pieces
 * were contiguous, so equal on all ranks of the node; 0 if they do not lie within one. */
static inline uint64_t cf_piece_find(const struct cf_comm *comm, const void *buffer, size_t bytes) {
    uint64_t before = 1;

    for (const struct cf_piece *piece = comm->pieces; piece != NULL; piece = piece->next) {
        const uintptr_t offset = (uintptr_t)buffer - (uintptr_t)piece->address;
        if (offset <= piece->bytes && bytes <= piece->bytes - offset) {
            return before + offset;
        }
        before += piece->bytes;
    }
    return 0;
}

/* This process's address of what another rank found. */
static inline const unsigned char *cf_piece_at(const struct cf_comm *comm, uint64_t where) {
    const struct cf_piece *piece = comm->pieces;

    for (where--; where >= piece->bytes; piece = piece->next) {
        where -= piece->bytes;
    }
    return (const unsigned char *)piece->address + where;
}

/* Gets the communicator a shared-memory window. Collective over the communicator. Returns false on
 * all its ranks if some node has none. */
bool cf_shared_open(struct cf_comm *comm);
/* Local: keeps the window for another communicator. */
void cf_shared_close(struct cf_comm *comm);
/* Frees the kept windows. Collective over MPI_COMM_WORLD. */
void cf_shared_stop(void);

/* The slow path of cf_shared_wait. */
uint64_t cf_shared_wait_long(const struct cf_shared *shared, const cf_shared_flag *flag,
                             uint64_t least);

/* Waits until *flag >= least, and returns its value. MPI makes progress meanwhile. */
static inline uint64_t cf_shared_wait(const struct cf_shared *shared, const cf_shared_flag *flag,
                                      uint64_t least) {
    const uint64_t value = atomic_load_explicit(flag, memory_order_acquire);
    return value >= least ? value : cf_shared_wait_long(shared, flag, least);
}

/* The slow path of cf_shared_reserve: returns when all ranks have left the first `least` rounds. */
void cf_shared_reserve_long(struct cf_shared *shared, uint64_t least);

/* Waits until the memory of this round may be overwritten. */
static inline void cf_shared_reserve(struct cf_shared *shared, uint64_t round, bool small) {
    const uint64_t depth = small ? CF_SHARED_SLOTS : CF_SHARED_BUFFERS;

    if (round >= depth && shared->all_done < round - depth + 1) {
        cf_shared_reserve_long(shared, round - depth + 1);
    }
}

static inline struct cf_shared_slot *cf_shared_slot(const struct cf_shared *shared, int rank,
                                                    uint64_t round) {
    return &shared->segments[rank]->slots[round % CF_SHARED_SLOTS];
}

/* The address of a rank's data in a round. */
static inline unsigned char *cf_shared_place(const struct cf_shared *shared, int rank,
                                             uint64_t round, bool small) {
    return small ? cf_shared_slot(shared, rank, round)->data
                 : shared->segments[rank]->buffers[round % CF_SHARED_BUFFERS];
}

static inline void cf_shared_raise(cf_shared_flag *flag, uint64_t value) {
    atomic_store_explicit(flag, value, memory_order_release);
}

/*
 * Prefetches this rank's slot of the next round for writing. The other ranks read it 16 rounds ago,
 * so its cache line is in their caches. Fetching it overlaps with waiting for their flags.
 */
static inline void cf_shared_foresee(const struct cf_shared *shared, uint64_t round) {
    const struct cf_shared_slot *next = cf_shared_slot(shared, shared->me, round + 1);
#if defined(__x86_64__)
    /* GCC emits this for __builtin_prefetch only if told that the processor has it. Other
     * processors ignore it. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)next));
#else
    __builtin_prefetch(next, 1);
#endif
}

/* Announces that this rank's data of the round can be read. */
static inline void cf_shared_filled(const struct cf_shared *shared, uint64_t round) {
    cf_shared_raise(&cf_shared_slot(shared, shared->me, round)->filled, round + 1);
}

static inline void cf_shared_await(const struct cf_shared *shared, int rank, uint64_t round) {
    (void)cf_shared_wait(shared, &cf_shared_slot(shared, rank, round)->filled, round + 1);
}

/* Each rank begins with the next one, so that they do not all read the same flag at once. */
static inline void cf_shared_await_others(const struct cf_shared *shared, uint64_t round) {
    for (int i = 1; i < shared->n; i++) {
        const int rank = shared->me + i;
        cf_shared_await(shared, rank < shared->n ? rank : rank - shared->n, round);
    }
}

/* Announces that this rank will read nothing more of rounds up to this one. */
static inline void cf_shared_done(const struct cf_shared *shared, uint64_t round) {
    cf_shared_raise(&shared->segments[shared->me]->done, round + 1);
}

/* cf_shared_done for a collective of one small round: announces several such rounds at once. */
static inline void cf_shared_done_small(const struct cf_shared *shared, uint64_t round) {
    if ((round + 1) % CF_SHARED_LATE == 0) {
        cf_shared_done(shared, round);
    }
}

/* Takes the next rounds of the communicator; returns the number of the first. */
static inline uint64_t cf_shared_take(struct cf_shared *shared, uint64_t rounds) {
    const uint64_t first = shared->rounds;
    if (rounds > 1) {
        cf_shared_raise(&shared->segments[shared->me]->done, first); /* deferred by small rounds */
    }
    shared->rounds += rounds;
    return first;
}

/* Bytes of the whole elements that fit a round; 0 if not even one fits. */
static inline size_t cf_shared_piece(const struct cf_unit *unit) {
    const size_t size = (size_t)unit->size;
    return CF_SHARED_PIECE / size * size;
}

/* cf_shared_put and cf_shared_get for elements that are not dense. */
int cf_shared_pack(struct cf_comm *comm, void *place, const void *from, size_t bytes,
                   const struct cf_unit *unit);
int cf_shared_unpack(struct cf_comm *comm, void *to, const void *place, size_t bytes,
                     const struct cf_unit *unit);

/* Packs elements of typed memory into the window, and back. bytes is a multiple of the element
 * size. */
static inline int cf_shared_put(struct cf_comm *comm, void *place, const void *from, size_t bytes,
                                const struct cf_unit *unit) {
    if (unit->dense) {
        memcpy(place, from, bytes);
        return MPI_SUCCESS;
    }
    return cf_shared_pack(comm, place, from, bytes, unit);
}

static inline int cf_shared_get(struct cf_comm *comm, void *to, const void *place, size_t bytes,
                                const struct cf_unit *unit) {
    if (unit->dense) {
        memcpy(to, place, bytes);
        return MPI_SUCCESS;
    }
    return cf_shared_unpack(comm, to, place, bytes, unit);
}

/* Reduces at most CF_SHARED_SMALL bytes in one round. root combines, or every rank where it is
 * negative. */
int cf_shared_reduce_small(struct cf_comm *comm, const void *from, void *to, int count,
                           const struct cf_unit *unit, MPI_Op op, int root);

/* The address in typed memory of the element after this many packed bytes. */
static inline void *cf_shared_skip(const struct cf_unit *unit, const void *buffer, size_t bytes) {
    return unit->dense ? (char *)buffer + bytes
                       : cf_at(unit, buffer, (MPI_Aint)(bytes / (size_t)unit->size));
}

#endif
