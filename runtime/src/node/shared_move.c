/*
 * Collectives of a node that move data through its shared-memory window (protocol: shared.c).
 *
 * In each of them every rank sends a stream of packed bytes, which may be empty, and every other
 * rank wants an interval of it. Round t carries piece t (at most CF_SHARED_PIECE bytes) of every
 * stream. A rank reads the pieces that overlap its interval, one round behind the one it fills.
 * Example: rank 0 scatters 20, 20 and 40 KiB, with pieces of 32 KiB. Its stream is the parts of
 * ranks 1 and 2, 60 KiB. Rank 1 reads the first 20 KiB of piece 0 and leaves. Rank 2 reads the rest
 * of piece 0, and piece 1.
 */
#include "node/shared_window.h"

#include "data/component.h"

/* The state of a collective on this rank. flows and parts are those of struct cf_shared. */
struct moving {
    struct cf_comm *comm;
    struct cf_shared *shared;
    const struct cf_unit *unit;
    size_t piece;  /* bytes in a round */
    int nparts;    /* of this rank's stream */
    int part;      /* the next one to copy, */
    size_t offset; /* from this byte on */
    int err;       /* first error; the rank still takes part in all rounds */
};

static void move_begin(struct moving *moving, struct cf_comm *comm, const struct cf_unit *unit) {
    struct cf_shared *shared = comm->shared;

    *moving = (struct moving){.comm = comm, .shared = shared, .unit = unit, .err = MPI_SUCCESS};
    moving->piece = cf_shared_piece(unit);
    memset(shared->flows, 0, (size_t)shared->n * sizeof *shared->flows);
}

static void add_part(struct moving *moving, const void *from, size_t bytes) {
    moving->shared->parts[moving->nparts++] = (struct cf_shared_part){from, bytes};
}

/* This rank wants `bytes` bytes of a rank's stream, from begin on, copied into `to`. */
static void want(struct moving *moving, int rank, size_t begin, size_t bytes, void *to) {
    struct cf_shared_flow *flow = &moving->shared->flows[rank];

    flow->begin = begin;
    flow->end = begin + bytes;
    flow->to = to;
}

static bool is_small(const struct cf_shared_flow *flow) {
    return flow->total <= CF_SHARED_SMALL;
}

/* Copies the next bytes of this rank's stream into the window. */
static void fill(struct moving *moving, uint64_t round, size_t bytes) {
    struct cf_shared *shared = moving->shared;
    const bool small = is_small(&shared->flows[shared->me]);

    cf_shared_reserve(shared, round, small);
    unsigned char *place = cf_shared_place(shared, shared->me, round, small);
    while (bytes > 0) {
        const struct cf_shared_part *part = &shared->parts[moving->part];
        const size_t rest = part->bytes - moving->offset;
        const size_t now = rest < bytes ? rest : bytes;
        if (now > 0) {
            cf_note(&moving->err,
                    cf_shared_put(moving->comm, place,
                                  cf_shared_skip(moving->unit, part->from, moving->offset), now,
                                  moving->unit));
        }
        place += now;
        bytes -= now;
        moving->offset += now;
        if (now == rest) {
            moving->part++;
            moving->offset = 0;
        }
    }
    cf_shared_filled(shared, round);
}

/* Copies the overlap of a rank's piece with the interval that this rank wants. first: the piece's
 * first byte in the stream. */
static void drain(struct moving *moving, int rank, uint64_t round, size_t first) {
    const struct cf_shared_flow *flow = &moving->shared->flows[rank];
    const size_t last = first + moving->piece;
    const size_t begin = flow->begin > first ? flow->begin : first;
    const size_t end = flow->end < last ? flow->end : last;

    if (begin >= end) {
        return;
    }
    cf_shared_await(moving->shared, rank, round);
    const unsigned char *place = cf_shared_place(moving->shared, rank, round, is_small(flow));
    cf_note(&moving->err,
            cf_shared_get(moving->comm, cf_shared_skip(moving->unit, flow->to, begin - flow->begin),
                          place + (begin - first), end - begin, moving->unit));
}

static int move(struct moving *moving) {
    struct cf_shared *shared = moving->shared;
    const size_t own = shared->flows[shared->me].total;
    size_t longest = 0;

    for (int rank = 0; shared->n > 1 && rank < shared->n; rank++) {
        const size_t total = shared->flows[rank].total;
        longest = total > longest ? total : longest;
    }
    const uint64_t rounds = longest / moving->piece + (longest % moving->piece != 0);
    const uint64_t base = cf_shared_take(shared, rounds);
    for (uint64_t t = 0; t <= rounds && rounds > 0; t++) {
        const size_t first = (size_t)t * moving->piece;
        if (first < own) {
            fill(moving, base + t, own - first < moving->piece ? own - first : moving->piece);
        }
        for (int i = 1; t > 0 && i < shared->n; i++) {
            drain(moving, (shared->me + i) % shared->n, base + t - 1, first - moving->piece);
        }
        if (t > 0) {
            cf_shared_done(shared, base + t - 1);
        }
    }
    return moving->err;
}

static size_t bytes_of(const struct cf_unit *unit, int count) {
    return (size_t)count * (size_t)unit->size;
}

/* Both are equal on all ranks: elements of no bytes, and elements larger than a round. */
static bool is_empty(const struct cf_unit *unit) {
    return unit->size == 0;
}

static bool is_too_large(const struct cf_unit *unit) {
    return unit->size > CF_SHARED_PIECE;
}

/* Short messages: one round, one cache line. */
static int bcast_small(struct cf_comm *comm, void *buffer, size_t bytes, const struct cf_unit *unit,
                       int root) {
    struct cf_shared *shared = comm->shared;
    const uint64_t round = cf_shared_take(shared, 1);
    struct cf_shared_slot *slot = cf_shared_slot(shared, root, round);
    int err = MPI_SUCCESS;

    if (shared->me == root) {
        cf_shared_reserve(shared, round, true);
        err = cf_shared_put(comm, slot->data, buffer, bytes, unit);
        cf_shared_filled(shared, round);
        cf_shared_foresee(shared, round);
    } else {
        cf_shared_await(shared, root, round);
        err = cf_shared_get(comm, buffer, slot->data, bytes, unit);
        /* Prefetch: a root that is ahead has filled this slot already. */
        __builtin_prefetch(cf_shared_slot(shared, root, round + 2));
    }
    cf_shared_done_small(shared, round);
    return err;
}

int cf_shared_bcast(struct cf_comm *comm, void *buffer, int count, const struct cf_unit *unit,
                    int root) {
    const size_t bytes = bytes_of(unit, count);
    struct moving moving;

    if (bytes == 0 || comm->shared->n == 1) {
        return MPI_SUCCESS;
    }
    if (bytes <= CF_SHARED_SMALL) {
        return bcast_small(comm, buffer, bytes, unit, root);
    }
    if (is_too_large(unit)) {
        return cf_bcast(comm, buffer, count, unit, root, comm->layout.node_comm);
    }
    move_begin(&moving, comm, unit);
    comm->shared->flows[root].total = bytes;
    if (comm->shared->me == root) {
        add_part(&moving, buffer, bytes);
    } else {
        want(&moving, root, 0, bytes, buffer);
    }
    return move(&moving);
}

/* For elements too large for the window. */
static int scatter_native(struct cf_comm *comm, const void *from, const struct cf_split *split,
                          void *to, const struct cf_unit *unit, int root) {
    const bool is_root = comm->shared->me == root;

    if (is_root && to == cf_at(unit, from, split->displs[root])) {
        to = cf_temp(comm, CF_SLOT_OPERAND, split->counts[root], unit);
        CF_TRY_MEMORY(to);
    }
    return cf_scatter(comm, from, split, to, unit, root, comm->layout.node_comm);
}

int cf_shared_scatter(struct cf_comm *comm, const void *from, const struct cf_split *split,
                      void *to, const struct cf_unit *unit, int root) {
    const struct cf_shared *shared = comm->shared;
    struct moving moving;
    size_t begin = 0;

    if (is_empty(unit)) {
        return MPI_SUCCESS;
    }
    if (is_too_large(unit)) {
        return scatter_native(comm, from, split, to, unit, root);
    }
    move_begin(&moving, comm, unit);
    for (int rank = 0; rank < shared->n; rank++) {
        const size_t bytes = rank == root ? 0 : bytes_of(unit, split->counts[rank]);
        if (shared->me == root) {
            add_part(&moving, cf_at(unit, from, split->displs[rank]), bytes);
        } else if (shared->me == rank) {
            want(&moving, root, begin, bytes, to);
        }
        begin += bytes;
    }
    shared->flows[root].total = begin;
    if (shared->me == root) {
        cf_note(&moving.err, cf_copy(comm, to, cf_at(unit, from, split->displs[root]),
                                     split->counts[root], unit));
    }
    return move(&moving);
}

/* A gather of elements too large for the window. */
static int collect_native(struct cf_comm *comm, const void *from, void *to,
                          const struct cf_split *split, const struct cf_unit *unit, int root) {
    const int me = comm->shared->me;

    if ((root < 0 || me == root) && from == cf_at(unit, to, split->displs[me])) {
        CF_TRY(cf_copy_apart(comm, CF_SLOT_OPERAND, &from, split->counts[me], unit));
    }
    return root < 0 ? cf_allgather(comm, from, to, split, unit, comm->layout.node_comm)
                    : cf_gather(comm, from, to, split, unit, root, comm->layout.node_comm);
}

/* A gather to root, or to all ranks where root is negative. */
static int collect(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                   const struct cf_unit *unit, int root) {
    const struct cf_shared *shared = comm->shared;
    const bool gets = root < 0 || shared->me == root;
    struct moving moving;

    if (is_empty(unit)) {
        return MPI_SUCCESS;
    }
    if (is_too_large(unit)) {
        return collect_native(comm, from, to, split, unit, root);
    }
    move_begin(&moving, comm, unit);
    for (int rank = 0; rank < shared->n; rank++) {
        const size_t bytes = rank == root ? 0 : bytes_of(unit, split->counts[rank]);
        shared->flows[rank].total = bytes;
        if (rank == shared->me) {
            add_part(&moving, from, bytes);
        } else if (gets) {
            want(&moving, rank, 0, bytes, cf_at(unit, to, split->displs[rank]));
        }
    }
    if (gets) {
        cf_note(&moving.err, cf_copy(comm, cf_at(unit, to, split->displs[shared->me]), from,
                                     split->counts[shared->me], unit));
    }
    return move(&moving);
}

int cf_shared_gather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                     const struct cf_unit *unit, int root) {
    return collect(comm, from, to, split, unit, root);
}

int cf_shared_allgather(struct cf_comm *comm, const void *from, void *to,
                        const struct cf_split *split, const struct cf_unit *unit) {
    return collect(comm, from, to, split, unit, -1);
}

/*
 * An all-to-all among n ranks: rank i sends to i + 1, i + 2, ... in this order, so that the ranks
 * of a round read from different sources. Where only sender and receiver know a size, one extra
 * round tells where each rank's part begins in each stream, and how long the stream is.
 */
static void tell_sizes(struct cf_comm *comm, const struct cf_split *send, size_t size) {
    struct cf_shared *shared = comm->shared;
    const int n = shared->n;
    const bool small = ((size_t)n + 1) * sizeof(uint64_t) <= CF_SHARED_SMALL;
    const uint64_t round = cf_shared_take(shared, 1);
    uint64_t begin = 0;

    cf_shared_reserve(shared, round, small);
    uint64_t *begins = (uint64_t *)(void *)cf_shared_place(shared, shared->me, round, small);
    for (int i = 1; i < n; i++) {
        const int target = (shared->me + i) % n;
        begins[target] = begin;
        begin += (uint64_t)send->counts[target] * size;
    }
    begins[shared->me] = begins[n] = begin;
    cf_shared_filled(shared, round);
    for (int i = 0; i < n; i++) {
        const int rank = (shared->me + i) % n;
        cf_shared_await(shared, rank, round);
        begins = (uint64_t *)(void *)cf_shared_place(shared, rank, round, small);
        shared->flows[rank].begin = begins[shared->me];
        shared->flows[rank].total = begins[n];
    }
    shared->all_done = round;
    cf_shared_done(shared, round);
}

int cf_shared_alltoall(struct cf_comm *comm, const void *from, const struct cf_split *send,
                       void *to, const struct cf_split *receive, const struct cf_unit *unit,
                       bool regular) {
    const struct cf_shared *shared = comm->shared;
    const int me = shared->me;
    const int n = shared->n;
    struct moving moving;

    if (is_empty(unit)) {
        return MPI_SUCCESS;
    }
    if (is_too_large(unit)) {
        return cf_alltoall(comm, from, send, to, receive, unit, regular, comm->layout.node_comm);
    }
    move_begin(&moving, comm, unit);
    if (n > 1 && !regular) {
        tell_sizes(comm, send, (size_t)unit->size);
    }
    for (int i = 1; i < n; i++) {
        const int target = (me + i) % n;
        const int source = (me + n - i) % n;
        const size_t bytes = bytes_of(unit, receive->counts[source]);
        const size_t begin = regular ? (size_t)(i - 1) * bytes : shared->flows[source].begin;
        add_part(&moving, cf_at(unit, from, send->displs[target]),
                 bytes_of(unit, send->counts[target]));
        want(&moving, source, begin, bytes, cf_at(unit, to, receive->displs[source]));
    }
    for (int rank = 0; regular && rank < n; rank++) {
        shared->flows[rank].total = (size_t)(n - 1) * bytes_of(unit, send->counts[0]);
    }
    cf_note(&moving.err, cf_copy(comm, cf_at(unit, to, receive->displs[me]),
                                 cf_at(unit, from, send->displs[me]), send->counts[me], unit));
    return move(&moving);
}
