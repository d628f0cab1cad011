/*
 * Reductions of a node through its shared-memory window (protocol: shared.c). Each round carries
 * one piece (at most CF_SHARED_PIECE bytes) of every rank's operand. The rank that combines an
 * element reads the operands of all ranks from the window, or, in cf_shared_reduce_scatter, in
 * place: an operand in a hybrid piece is not copied (method 2 of the allreduce of Zhou et al.
 * (2020), section 4.4). MPI_Reduce_local stores "first operand
 * op second" over the second, so combining from the last rank to the first needs no extra copies.
 * This order is legal for non-commutative ops, and is the same on every rank.
 */
#include "node/shared_window.h"

#include "base/runtime.h"
#include "data/component.h"

struct reducing {
    struct cf_comm *comm;
    struct cf_shared *shared;
    const struct cf_unit *unit;
    MPI_Op op;
    const void *from;
    void *to;
    size_t total;   /* bytes of the operand */
    size_t piece;   /* bytes of a round */
    bool small;     /* one round, beside the flags */
    uint64_t where; /* cf_piece_find of this rank's operand; 0: copy it into the window */
    size_t part;    /* where operands are in place: the part that this rank combines, in bytes */
    void *operand;  /* scratch for a piece of elements with holes */
    void *result;
    uint64_t base; /* the first round */
    int err;       /* first error; the rank still takes part in all rounds */
};

static void reduce_begin(struct reducing *job, size_t total, size_t piece, bool small) {
    const struct cf_unit *unit = job->unit;
    const size_t capacity = total < piece ? total : piece;

    job->shared = job->comm->shared;
    job->small = small;
    job->total = total;
    job->piece = piece;
    job->err = MPI_SUCCESS;
    if (!unit->dense) {
        const MPI_Aint units = (MPI_Aint)(capacity / (size_t)unit->size);
        job->operand = cf_temp(job->comm, CF_SLOT_OPERAND, units, unit);
        job->result = cf_temp(job->comm, CF_SLOT_RESULT, units, unit);
        if (job->operand == NULL || job->result == NULL) {
            job->err = MPI_ERR_NO_MEM;
        }
    }
}

static unsigned char *place_of(const struct reducing *job, int rank, uint64_t round) {
    return cf_shared_place(job->shared, rank, round, job->small);
}

/* A rank's operand: in place, or at this offset in its piece of the window. */
static const unsigned char *operand_at(const struct reducing *job, int rank, uint64_t round,
                                       size_t offset) {
    const uint64_t where = cf_shared_slot(job->shared, rank, round)->where;

    return where == 0 ? place_of(job, rank, round) + offset
                      : cf_piece_at(job->comm, where) + job->part;
}

/* Announces the operand of this round. */
static void filled(const struct reducing *job, uint64_t round) {
    cf_shared_slot(job->shared, job->shared->me, round)->where = job->where;
    cf_shared_filled(job->shared, round);
}

/* The bytes of piece t. */
static size_t length_of(const struct reducing *job, uint64_t t) {
    const size_t rest = job->total - (size_t)t * job->piece;
    return rest < job->piece ? rest : job->piece;
}

static int units_of(const struct reducing *job, size_t bytes) {
    return (int)(bytes / (size_t)job->unit->size);
}

/* to = packed operand op to. units > 0. */
static void combine(struct reducing *job, const void *place, void *to, int units) {
    const void *operand = place;

    if (job->err != MPI_SUCCESS) {
        return;
    }
    if (!job->unit->dense) {
        cf_note(&job->err, cf_shared_get(job->comm, job->operand, place,
                                         (size_t)units * (size_t)job->unit->size, job->unit));
        operand = job->operand;
    }
    if (job->err == MPI_SUCCESS) {
        cf_note(&job->err, cf_combine(job->comm, operand, to, units, job->unit, job->op));
    }
}

/* This rank's operand in the user's memory. A null pointer may mean MPI_BOTTOM. */
struct own {
    bool taken; /* false: read it from the window */
    const void *from;
};

/*
 * Combines the operands of ranks 0 to last into typed memory; offset is the first byte in their
 * pieces. own replaces this rank's operand in the window, where it is absent or slower to read.
 */
static void combine_into(struct reducing *job, void *to, int last, uint64_t round, size_t offset,
                         int units, struct own own) {
    const int me = job->shared->me;

    for (int rank = last; rank >= 0 && job->err == MPI_SUCCESS; rank--) {
        const unsigned char *place = operand_at(job, rank, round, offset);
        const bool here = rank == me && own.taken;
        if (rank == last && here) {
            cf_note(&job->err, cf_copy(job->comm, to, own.from, units, job->unit));
        } else if (rank == last) {
            cf_note(&job->err, cf_shared_get(job->comm, to, place,
                                             (size_t)units * (size_t)job->unit->size, job->unit));
        } else if (here) {
            cf_note(&job->err, cf_combine(job->comm, own.from, to, units, job->unit, job->op));
        } else {
            combine(job, place, to, units);
        }
    }
}

/* Copies piece t of this rank's operand into the window. */
static void fill(struct reducing *job, uint64_t t) {
    struct cf_shared *shared = job->shared;
    const uint64_t round = job->base + t;

    cf_shared_reserve(shared, round, job->small);
    if (job->err == MPI_SUCCESS) {
        cf_note(&job->err,
                cf_shared_put(job->comm, place_of(job, shared->me, round),
                              cf_shared_skip(job->unit, job->from, (size_t)t * job->piece),
                              length_of(job, t), job->unit));
    }
    filled(job, round);
}

static uint64_t rounds_of(size_t total, size_t piece) {
    return total / piece + (total % piece != 0);
}

/* Nothing to combine: no elements, no bytes, or one rank. */
static bool is_trivial(const struct cf_comm *comm, int count, const struct cf_unit *unit) {
    return count == 0 || unit->size == 0 || comm->shared->n == 1;
}

/* ---- reduce and allreduce -------------------------------------------------------------------- */

/* The first byte of a rank's slice in a piece of this many bytes. */
static size_t slice_begin(const struct reducing *job, size_t bytes, int rank) {
    const size_t units = bytes / (size_t)job->unit->size;
    const size_t n = (size_t)job->shared->n;
    const size_t longer = units % n < (size_t)rank ? units % n : (size_t)rank;

    return (units / n * (size_t)rank + longer) * (size_t)job->unit->size;
}

/* Combines this rank's slice of piece t. The result replaces the operand of the last rank. */
static void combine_slice(struct reducing *job, uint64_t t) {
    struct cf_shared *shared = job->shared;
    const uint64_t round = job->base + t;
    const int last = shared->n - 1;
    const size_t begin = slice_begin(job, length_of(job, t), shared->me);
    const size_t bytes = slice_begin(job, length_of(job, t), shared->me + 1) - begin;
    const int units = units_of(job, bytes);
    unsigned char *place = place_of(job, last, round) + begin;

    if (units > 0) {
        cf_shared_await_others(shared, round);
        if (!job->unit->dense) {
            combine_into(job, job->result, last, round, begin, units, (struct own){false, NULL});
            if (job->err == MPI_SUCCESS) {
                cf_note(&job->err, cf_shared_put(job->comm, place, job->result, bytes, job->unit));
            }
        }
        for (int rank = last - 1; job->unit->dense && rank >= 0; rank--) {
            combine(job, place_of(job, rank, round) + begin, place, units);
        }
    }
    cf_shared_raise(&shared->segments[shared->me]->combined, round + 1);
}

static void copy_result(struct reducing *job, uint64_t t) {
    const struct cf_shared *shared = job->shared;
    const uint64_t round = job->base + t;

    for (int rank = 0; rank < shared->n; rank++) {
        (void)cf_shared_wait(shared, &shared->segments[rank]->combined, round + 1);
    }
    if (job->err == MPI_SUCCESS) {
        cf_note(&job->err,
                cf_shared_get(job->comm, cf_shared_skip(job->unit, job->to, (size_t)t * job->piece),
                              place_of(job, shared->n - 1, round), length_of(job, t), job->unit));
    }
}

/*
 * A pipeline: in step t, round t is filled, round t - 1 combined and round t - 2 copied out. Every
 * rank combines its own slice of every piece.
 */
CF_APART static int reduce_slices(struct reducing *job, int root) {
    struct cf_shared *shared = job->shared;
    const bool gets = root < 0 || shared->me == root;
    const uint64_t rounds = rounds_of(job->total, job->piece);

    job->base = cf_shared_take(shared, rounds);
    for (uint64_t t = 0; t < rounds + 2; t++) {
        if (t < rounds) {
            fill(job, t);
        }
        if (t >= 1 && t - 1 < rounds) {
            combine_slice(job, t - 1);
        }
        if (t >= 2) {
            if (gets) {
                copy_result(job, t - 2);
            }
            cf_shared_done(shared, job->base + t - 2);
        }
    }
    return job->err;
}

/* For elements too large for the window. Never in place: MPICH 4.0.2 crashes (its issue 6540). */
static int reduce_native(struct reducing *job, int count, int root) {
    const struct cf_unit *unit = job->unit;

    if (job->comm->shared->me == root && job->from == job->to) {
        CF_TRY(cf_copy_apart(job->comm, CF_SLOT_OPERAND, &job->from, count, unit));
    }
    return cf_reduce(job->comm, job->from, job->to, count, unit, job->op, root,
                     job->comm->layout.node_comm);
}

/* Vectors that do not fit beside the flags; root as in cf_shared_reduce. */
CF_APART static int reduce_pieces(struct cf_comm *comm, const void *from, void *to, int count,
                                  const struct cf_unit *unit, MPI_Op op, int root) {
    struct reducing job = {.comm = comm, .unit = unit, .op = op, .from = from, .to = to};

    if (unit->size <= CF_SHARED_PIECE) {
        reduce_begin(&job, (size_t)count * (size_t)unit->size, cf_shared_piece(unit), false);
        return reduce_slices(&job, root);
    }
    const int err = reduce_native(&job, count, root < 0 ? 0 : root);
    const int sent =
        root < 0 ? cf_bcast(comm, to, count, unit, 0, comm->layout.node_comm) : MPI_SUCCESS;
    return err == MPI_SUCCESS ? sent : err;
}

int cf_shared_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op, int root) {
    if (is_trivial(comm, count, unit)) {
        return root < 0 || comm->shared->me == root ? cf_copy(comm, to, from, count, unit)
                                                    : MPI_SUCCESS;
    }
    return (size_t)count * (size_t)unit->size <= CF_SHARED_SMALL
               ? cf_shared_reduce_small(comm, from, to, count, unit, op, root)
               : reduce_pieces(comm, from, to, count, unit, op, root);
}

int cf_shared_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, MPI_Op op) {
    return cf_shared_reduce(comm, from, to, count, unit, op, -1);
}

/* ---- reduce_scatter -------------------------------------------------------------------------- */

/* The bytes of rank's result that round t carries: at most one piece. */
static size_t share_of(const struct reducing *job, const struct cf_split *split, int rank,
                       uint64_t t) {
    const size_t bytes = (size_t)split->counts[rank] * (size_t)job->unit->size;
    const size_t begin = (size_t)t * job->piece;
    const size_t rest = begin < bytes ? bytes - begin : 0;

    return rest < job->piece ? rest : job->piece;
}

/* This rank's operand for the part of rank's result that round t carries. */
static const void *operand_of(const struct reducing *job, const struct cf_split *split, int rank,
                              uint64_t t) {
    const void *from = cf_at(job->unit, job->from, split->displs[rank]);
    return cf_shared_skip(job->unit, from, (size_t)t * job->piece);
}

/* Each rank's segment is divided by the rank that combines, so that all ranks combine at the same
 * time. An operand in place stays where it is until all have combined: the caller waits. */
static void fill_shares(struct reducing *job, const struct cf_split *split, uint64_t t) {
    struct cf_shared *shared = job->shared;
    const uint64_t round = job->base + t;

    cf_shared_reserve(shared, round, job->small || job->where != 0);
    unsigned char *place = place_of(job, shared->me, round);
    for (int rank = 0; rank < shared->n && job->where == 0; rank++) {
        const size_t bytes = rank == shared->me ? 0 : share_of(job, split, rank, t);
        if (bytes > 0 && job->err == MPI_SUCCESS) {
            cf_note(&job->err, cf_shared_put(job->comm, place + (size_t)rank * job->piece,
                                             operand_of(job, split, rank, t), bytes, job->unit));
        }
    }
    filled(job, round);
}

static int reduce_shares(struct reducing *job, const struct cf_split *split, size_t longest) {
    struct cf_shared *shared = job->shared;
    const uint64_t rounds = rounds_of(longest, job->piece);
    const size_t offset = (size_t)shared->me * job->piece;

    job->base = cf_shared_take(shared, rounds);
    for (uint64_t t = 0; t <= rounds; t++) {
        if (t < rounds) {
            fill_shares(job, split, t);
        }
        if (t == 0) {
            continue;
        }
        const uint64_t round = job->base + t - 1;
        const size_t bytes = share_of(job, split, shared->me, t - 1);
        if (bytes > 0) {
            cf_shared_await_others(shared, round);
            job->part = (size_t)split->displs[shared->me] * (size_t)job->unit->size +
                        (size_t)(t - 1) * job->piece;
            combine_into(job, cf_shared_skip(job->unit, job->to, (size_t)(t - 1) * job->piece),
                         shared->n - 1, round, offset, units_of(job, bytes),
                         (struct own){true, operand_of(job, split, shared->me, t - 1)});
        }
        cf_shared_done(shared, round);
    }
    return job->err;
}

int cf_shared_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                             const struct cf_split *split, const struct cf_unit *unit, MPI_Op op) {
    struct reducing job = {.comm = comm, .unit = unit, .op = op, .from = from, .to = to};
    const size_t n = (size_t)comm->shared->n;
    const size_t size = (size_t)unit->size;
    size_t longest = 0;
    size_t end = 0; /* of this rank's operand */

    for (size_t rank = 0; rank < n; rank++) {
        const size_t bytes = (size_t)split->counts[rank] * size;
        longest = bytes > longest ? bytes : longest;
        end = (size_t)split->displs[rank] * size + bytes;
    }
    if (longest == 0) {
        return MPI_SUCCESS;
    }
    if (n == 1) {
        return cf_copy(comm, to, cf_at(unit, from, split->displs[0]), split->counts[0], unit);
    }
    if (size > CF_SHARED_PIECE / n) {
        return cf_reduce_scatter(comm, from, to, split, unit, op, comm->layout.node_comm);
    }
    job.where = unit->dense ? cf_piece_find(comm, from, end) : 0;
    const bool small = longest * n <= CF_SHARED_SMALL;
    reduce_begin(&job, longest, small ? longest : CF_SHARED_PIECE / n / size * size, small);
    return reduce_shares(&job, split, longest);
}

/* ---- scan and exscan ------------------------------------------------------------------------- */

/* Rank r combines the operands of ranks 0 to r - 1, and its own where the scan is inclusive. No
 * other rank reads the last rank's operand, so the last rank does not fill. */
static int prefixes(struct reducing *job, bool inclusive) {
    struct cf_shared *shared = job->shared;
    const uint64_t rounds = rounds_of(job->total, job->piece);
    const int last = inclusive ? shared->me : shared->me - 1;

    job->base = cf_shared_take(shared, rounds);
    for (uint64_t t = 0; t <= rounds; t++) {
        if (t < rounds && shared->me < shared->n - 1) {
            fill(job, t);
        }
        if (t == 0) {
            continue;
        }
        const uint64_t round = job->base + t - 1;
        const size_t begin = (size_t)(t - 1) * job->piece;
        for (int rank = shared->me - 1; rank >= 0; rank--) {
            cf_shared_await(shared, rank, round);
        }
        if (last >= 0) {
            combine_into(job, cf_shared_skip(job->unit, job->to, begin), last, round, 0,
                         units_of(job, length_of(job, t - 1)),
                         (struct own){true, cf_shared_skip(job->unit, job->from, begin)});
        }
        cf_shared_done(shared, round);
    }
    return job->err;
}

static int scan(struct reducing *job, int count, bool inclusive) {
    struct cf_comm *comm = job->comm;
    const struct cf_unit *unit = job->unit;
    const size_t bytes = (size_t)count * (size_t)unit->size;

    if (is_trivial(comm, count, unit)) {
        return inclusive ? cf_copy(comm, job->to, job->from, count, unit) : MPI_SUCCESS;
    }
    if (unit->size > CF_SHARED_PIECE) {
        return (inclusive ? cf_scan : cf_exscan)(comm, job->from, job->to, count, unit, job->op,
                                                 comm->layout.node_comm);
    }
    reduce_begin(job, bytes, cf_shared_piece(unit), bytes <= CF_SHARED_SMALL);
    return prefixes(job, inclusive);
}

int cf_shared_scan(struct cf_comm *comm, const void *from, void *to, int count,
                   const struct cf_unit *unit, MPI_Op op) {
    struct reducing job = {.comm = comm, .unit = unit, .op = op, .from = from, .to = to};

    return scan(&job, count, true);
}

int cf_shared_exscan(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op) {
    struct reducing job = {.comm = comm, .unit = unit, .op = op, .from = from, .to = to};

    return scan(&job, count, false);
}
