/* The window behind shared.h: its memory, its flags, and how a rank waits for one. shared.c holds
 * the protocol, shared_open.c the window's life. */
#ifndef COLLFORGE_SHARED_WINDOW_H_INCLUDED
#define COLLFORGE_SHARED_WINDOW_H_INCLUDED

#include "node/shared.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

enum {
    CF_SHARED_LINE = 128,   /* two cache lines: some processors fetch them in pairs */
    CF_SHARED_SLOTS = 16,   /* rounds in flight when all is small */
    CF_SHARED_SMALL = 240,  /* bytes beside a flag */
    CF_SHARED_BUFFERS = 4,  /* rounds in flight otherwise */
    CF_SHARED_LATE = 4,     /* small rounds that a rank is done with at once; at most the buffers */
    CF_SHARED_PIECE = 32768 /* bytes */
};

#if ATOMIC_LLONG_LOCK_FREE != 2
#error "flags between processes need lock-free 64-bit atomics"
#endif

typedef _Atomic uint64_t cf_shared_flag;

/* A flag and a small piece that come in one cache line, or few. */
struct cf_shared_slot {
    cf_shared_flag filled; /* round + 1 */
    alignas(16) unsigned char data[CF_SHARED_SMALL];
};

/* What one rank contributes to the window. It alone writes its flags. */
struct cf_shared_segment {
    alignas(CF_SHARED_LINE) cf_shared_flag done;     /* rounds over, by its own reading */
    alignas(CF_SHARED_LINE) cf_shared_flag combined; /* the last round combined, + 1 */
    alignas(CF_SHARED_LINE) struct cf_shared_slot slots[CF_SHARED_SLOTS];
    alignas(CF_SHARED_LINE) unsigned char buffers[CF_SHARED_BUFFERS][CF_SHARED_PIECE];
};

/* The bytes that flow out of one rank in a collective, and where in them this rank's are. */
struct cf_shared_flow {
    size_t total;
    size_t begin, end;
    void *to;
};

/* Contiguous units of a buffer. */
struct cf_shared_part {
    const void *from;
    size_t bytes;
};

struct cf_shared {
    MPI_Win window; /* MPI_WIN_NULL on a node of one rank */
    MPI_Info info;  /* the window's hints */
    MPI_Comm node_comm;
    int n;
    int me;
    int *members;           /* [n] their ranks in MPI_COMM_WORLD */
    uint64_t number[2];     /* no two windows have the same; its ranks agree on it */
    struct cf_shared *next; /* kept after this one */
    uint64_t rounds;        /* so far; alike on all ranks between collectives */
    uint64_t all_done;      /* a number of rounds that all ranks are known to be done with */
    struct cf_shared_segment **segments; /* [n] */
    struct cf_shared_flow *flows;        /* [n] scratch of shared_move.c */
    struct cf_shared_part *parts;        /* [n] */
};

/* Gets the communicator a window: collective over it. Returns false, on all its ranks alike, when
 * some node has none. */
bool cf_shared_open(struct cf_comm *comm);
/* Local: the window is kept for another communicator. */
void cf_shared_close(struct cf_comm *comm);
/* Frees the windows that are kept. Collective over MPI_COMM_WORLD, as they are all in it. */
void cf_shared_stop(void);

/* The slow half of cf_shared_wait. */
uint64_t cf_shared_wait_long(const struct cf_shared *shared, const cf_shared_flag *flag,
                             uint64_t least);

/* Returns when the flag is at least this much, with its value. MPI progresses meanwhile. */
static inline uint64_t cf_shared_wait(const struct cf_shared *shared, const cf_shared_flag *flag,
                                      uint64_t least) {
    const uint64_t value = atomic_load_explicit(flag, memory_order_acquire);
    return value >= least ? value : cf_shared_wait_long(shared, flag, least);
}

/* The slow half of cf_shared_reserve: all are done with this many rounds when it returns. */
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

/* Where a rank's piece of a round stands. */
static inline unsigned char *cf_shared_place(const struct cf_shared *shared, int rank,
                                             uint64_t round, bool small) {
    return small ? cf_shared_slot(shared, rank, round)->data
                 : shared->segments[rank]->buffers[round % CF_SHARED_BUFFERS];
}

static inline void cf_shared_raise(cf_shared_flag *flag, uint64_t value) {
    atomic_store_explicit(flag, value, memory_order_release);
}

/*
 * Fetches this rank's slot of the next round for writing. The others have read it 16 rounds ago,
 * and taking it from them takes as long as they take to answer: the rank waits for them meanwhile.
 */
static inline void cf_shared_foresee(const struct cf_shared *shared, uint64_t round) {
    const struct cf_shared_slot *next = cf_shared_slot(shared, shared->me, round + 1);
#if defined(__x86_64__)
    /* What __builtin_prefetch says only for processors named to the compiler; others ignore it. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)next));
#else
    __builtin_prefetch(next, 1);
#endif
}

/* This rank's piece of the round is in place. */
static inline void cf_shared_filled(const struct cf_shared *shared, uint64_t round) {
    cf_shared_raise(&cf_shared_slot(shared, shared->me, round)->filled, round + 1);
}

static inline void cf_shared_await(const struct cf_shared *shared, int rank, uint64_t round) {
    (void)cf_shared_wait(shared, &cf_shared_slot(shared, rank, round)->filled, round + 1);
}

/* This rank will read no more of this round and those before. */
static inline void cf_shared_done(const struct cf_shared *shared, uint64_t round) {
    cf_shared_raise(&shared->segments[shared->me]->done, round + 1);
}

/* The same of a collective of one small round, which says so for several of its kind at once. */
static inline void cf_shared_done_small(const struct cf_shared *shared, uint64_t round) {
    if ((round + 1) % CF_SHARED_LATE == 0) {
        cf_shared_done(shared, round);
    }
}

/* Takes this many rounds; returns the first. */
static inline uint64_t cf_shared_take(struct cf_shared *shared, uint64_t rounds) {
    const uint64_t first = shared->rounds;
    if (rounds > 1) {
        cf_shared_raise(&shared->segments[shared->me]->done, first); /* what came late so far */
    }
    shared->rounds += rounds;
    return first;
}

/* Whole elements in a piece, in bytes; 0 where there is room for none. */
static inline size_t cf_shared_piece(const struct cf_unit *unit) {
    const size_t size = (size_t)unit->size;
    return CF_SHARED_PIECE / size * size;
}

/* What cf_shared_put and cf_shared_get do for elements that are not dense. */
int cf_shared_pack(struct cf_comm *comm, void *place, const void *from, size_t bytes,
                   const struct cf_unit *unit);
int cf_shared_unpack(struct cf_comm *comm, void *to, const void *place, size_t bytes,
                     const struct cf_unit *unit);

/* Bytes of packed elements out of typed memory and back. bytes is a multiple of the size. */
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

/* Of at most CF_SHARED_SMALL bytes, in one round: root, or every rank where it is negative,
 * combines all. */
int cf_shared_reduce_small(struct cf_comm *comm, const void *from, void *to, int count,
                           const struct cf_unit *unit, MPI_Op op, int root);

/* The element of typed memory that begins after this many packed bytes. */
static inline void *cf_shared_skip(const struct cf_unit *unit, const void *buffer, size_t bytes) {
    return unit->dense ? (char *)buffer + bytes
                       : cf_at(unit, buffer, (MPI_Aint)(bytes / (size_t)unit->size));
}

#endif
