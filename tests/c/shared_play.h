/*
 * Collectives through a node's window against their definitions: one of any kind, with any type,
 * whose buffers are compared with what should be in them, guards and holes included. All that the
 * ranks of a node must agree on they draw from the same random numbers; delays and MPI_IN_PLACE
 * from numbers of their own.
 */
#ifndef TESTS_C_SHARED_PLAY_H_INCLUDED
#define TESTS_C_SHARED_PLAY_H_INCLUDED

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "node/shared.h"
#include "start/start.h"

#define check(holds)                                                                               \
    ((holds) ? (void)0                                                                             \
             : (fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, where, #holds),             \
                (void)PMPI_Abort(MPI_COMM_WORLD, 1)))

static _Thread_local char where[128] = "setup";

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct random {
    uint64_t state;
};

static int below(struct random *random, int limit) {
    return (int)(mix(random->state++) % (uint64_t)limit);
}

/* ---- types: atoms of some bytes each, at these offsets --------------------------------------- */

enum { BYTES, INTS, DOUBLES, HOLES, MATRIX_HOLES, MATRIX, MEDIUM, BIG, NTYPES };
enum { MODULUS = 251, MOST_ATOMS = 10001 };

struct type {
    MPI_Datatype handle;
    MPI_Op op;
    int atom; /* bytes */
    int natoms;
    MPI_Aint extent;
    MPI_Aint lb;
    const int *offsets; /* NULL: one atom after the other */
};

static struct type types[NTYPES];

static MPI_Aint offset_of(const struct type *type, int atom) {
    return type->offsets == NULL ? (MPI_Aint)atom * type->atom : type->offsets[atom];
}

/* b = a op b, of atoms. */
static void apply(const struct type *type, const void *a, void *b) {
    const int *const left = a;
    int *const right = b;

    if (type == &types[BYTES]) {
        *(unsigned char *)b ^= *(const unsigned char *)a;
    } else if (type == &types[DOUBLES]) {
        *(double *)b += *(const double *)a;
    } else if (type == &types[MATRIX] || type == &types[MATRIX_HOLES]) {
        const int product[] = {
            left[0] * right[0] + left[1] * right[2], left[0] * right[1] + left[1] * right[3],
            left[2] * right[0] + left[3] * right[2], left[2] * right[1] + left[3] * right[3]};
        for (int i = 0; i < 4; i++)
            right[i] = product[i] % MODULUS;
    } else {
        for (int i = 0; i < type->natoms; i++)
            right[i] += left[i];
    }
}

static void load(const struct type *type, const void *memory, void *atoms) {
    for (int i = 0; i < type->natoms; i++)
        memcpy((char *)atoms + i * type->atom, (const char *)memory + offset_of(type, i),
               (size_t)type->atom);
}

static void store(const struct type *type, void *memory, const void *atoms) {
    for (int i = 0; i < type->natoms; i++)
        memcpy((char *)memory + offset_of(type, i), (const char *)atoms + i * type->atom,
               (size_t)type->atom);
}

static void user_op(void *in, void *inout, int *length, MPI_Datatype *handle) {
    const struct type *type = types;
    static _Thread_local alignas(double) int a[MOST_ATOMS], b[MOST_ATOMS];

    check(*length > 0);
    while (type->handle != *handle)
        type++;
    for (int i = 0; i < *length; i++) {
        load(type, (char *)in + i * type->extent, a);
        load(type, (char *)inout + i * type->extent, b);
        apply(type, a, b);
        store(type, (char *)inout + i * type->extent, b);
    }
}

static MPI_Datatype with_holes(int atoms, const int *offsets, MPI_Aint lb, MPI_Aint extent) {
    MPI_Datatype plain = MPI_DATATYPE_NULL;
    MPI_Datatype resized = MPI_DATATYPE_NULL;
    int ints[4];

    for (int i = 0; i < atoms; i++)
        ints[i] = offsets[i] / 4;
    MPI_Type_create_indexed_block(atoms, 1, ints, MPI_INT, &plain);
    MPI_Type_create_resized(plain, lb, extent, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_free(&plain);
    return resized;
}

static MPI_Datatype contiguous(int ints) {
    MPI_Datatype type = MPI_DATATYPE_NULL;

    MPI_Type_contiguous(ints, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void make_types(void) {
    static const int three[] = {0, 8, 12};
    static const int matrix[] = {-8, 0, 4, 12};
    MPI_Op user = MPI_OP_NULL;
    MPI_Op commuting = MPI_OP_NULL;

    MPI_Op_create(user_op, 0, &user);
    MPI_Op_create(user_op, 1, &commuting);
    types[BYTES] = (struct type){MPI_BYTE, MPI_BXOR, 1, 1, 1, 0, NULL};
    types[INTS] = (struct type){MPI_INT, MPI_SUM, 4, 1, 4, 0, NULL};
    types[DOUBLES] = (struct type){MPI_DOUBLE, MPI_SUM, 8, 1, 8, 0, NULL};
    types[HOLES] = (struct type){with_holes(3, three, 0, 20), commuting, 4, 3, 20, 0, three};
    types[MATRIX_HOLES] =
        (struct type){with_holes(4, matrix, -12, 28), user, 4, 4, 28, -12, matrix};
    types[MATRIX] = (struct type){contiguous(4), user, 4, 4, 16, 0, NULL};
    types[MEDIUM] = (struct type){contiguous(3001), commuting, 4, 3001, 4 * 3001, 0, NULL};
    types[BIG] =
        (struct type){contiguous(MOST_ATOMS), commuting, 4, MOST_ATOMS, 4 * MOST_ATOMS, 0, NULL};
}

static void free_types(void) {
    MPI_Op_free(&types[HOLES].op);
    MPI_Op_free(&types[MATRIX].op);
    for (int i = HOLES; i < NTYPES; i++)
        MPI_Type_free(&types[i].handle);
}

/* ---- buffers: elements between guards, holes filled with a pattern --------------------------- */

enum { GUARD = 64, PATTERN = 0xA5 };

struct buffer {
    unsigned char *memory;
    size_t bytes;
    char *at; /* to pass to MPI */
};

static struct buffer new_buffer(const struct type *type, int count) {
    struct buffer buffer = {.bytes = (size_t)(count * type->extent) + 2 * GUARD};

    buffer.memory = malloc(buffer.bytes);
    check(buffer.memory != NULL);
    memset(buffer.memory, PATTERN, buffer.bytes);
    buffer.at = (char *)buffer.memory + GUARD - type->lb;
    return buffer;
}

/* Element index of a rank's input in a step. */
static void value(const struct type *type, uint64_t step, int rank, int index, void *atoms) {
    uint64_t bits = mix(step * 1000003 + (uint64_t)rank * 0x10001 + ((uint64_t)index << 34));

    for (int i = 0; i < type->natoms; i++) {
        if (type->atom == 1)
            ((unsigned char *)atoms)[i] = (unsigned char)bits;
        else if (type->atom == 4)
            ((int *)atoms)[i] = (int)(bits % MODULUS);
        else
            ((double *)atoms)[i] = (double)(bits % 1000);
        bits = bits * 6364136223846793005u + 1;
    }
}

static void put_values(const struct type *type, char *at, uint64_t step, int rank, int first,
                       int count) {
    static _Thread_local alignas(double) int atoms[MOST_ATOMS];

    for (int i = 0; i < count; i++) {
        value(type, step, rank, first + i, atoms);
        store(type, at + i * type->extent, atoms);
    }
}

/* The values of ranks 0 to last, combined in their order. */
static void put_combined(const struct type *type, char *at, uint64_t step, int last, int first,
                         int count) {
    static _Thread_local alignas(double) int sum[MOST_ATOMS], next[MOST_ATOMS];

    for (int i = 0; i < count; i++) {
        value(type, step, 0, first + i, sum);
        for (int rank = 1; rank <= last; rank++) {
            value(type, step, rank, first + i, next);
            apply(type, sum, next);
            memcpy(sum, next, (size_t)(type->atom * type->natoms));
        }
        store(type, at + i * type->extent, sum);
    }
}

/* Compares the whole memory, holes and guards too, and frees both. */
static void expect(struct buffer *found, struct buffer *expected) {
    check(memcmp(found->memory, expected->memory, found->bytes) == 0);
    free(found->memory);
    free(expected->memory);
}

/* ---- one random collective ------------------------------------------------------------------- */

struct play {
    struct cf_comm *comm;
    int n, me;
    struct random alike; /* what the ranks of the node draw alike */
    struct random own;
    uint64_t step;
    const struct type *type;
    struct cf_unit unit;
    int count;
    int root;
    int counts[2][64];
    int displs[2][64];
    struct cf_split split, other;
};

static bool chance(struct random *random, int one_in) {
    return below(random, one_in) == 0;
}

static void sleep_a_while(struct play *play) {
    if (chance(&play->own, 6)) {
        const struct timespec time = {.tv_nsec = below(&play->own, 2000) * 1000L};
        (void)nanosleep(&time, NULL);
    }
}

/* Elements in total: mostly few, sometimes several times what the window holds of a rank. */
static int draw_count(struct play *play, const struct type *type) {
    const int size = type->atom * type->natoms;
    const int bytes[] = {0, 64, 300, 5000, 40000, 140000, 500000};
    const int kind = below(&play->alike, 16);
    const int limit = bytes[kind < 12 ? kind / 3 : kind == 12 ? 4 : kind < 15 ? 5 : 6] / size;

    return below(&play->alike, limit + 2);
}

/* A split of about this many units, even or not, with gaps between the parts or not. */
static struct cf_split draw_split(struct play *play, int which, int units) {
    struct cf_split split = {.n = play->n, .counts = play->counts[which], .displs = play->displs[which], .uniform = true};
    const int kind = below(&play->alike, 3);

    for (int i = 0; i < play->n; i++) {
        split.counts[i] =
            kind == 0   ? units / play->n
            : kind == 1 ? units / play->n + (i < units % play->n)
                        : below(&play->alike, 2 * units / play->n + 2) * !chance(&play->alike, 3);
        split.displs[i] = split.total;
        split.total += split.counts[i];
        split.uniform = split.uniform && split.counts[i] == split.counts[0];
    }
    return split;
}

static void play_bcast(struct play *play) {
    struct buffer data = new_buffer(play->type, play->count);
    struct buffer expected = new_buffer(play->type, play->count);

    if (play->me == play->root)
        put_values(play->type, data.at, play->step, play->root, 0, play->count);
    put_values(play->type, expected.at, play->step, play->root, 0, play->count);
    check(cf_shared_bcast(play->comm, data.at, play->count, &play->unit, play->root) ==
          MPI_SUCCESS);
    expect(&data, &expected);
}

/* reduce, allreduce, scan and exscan; some ranks in place. */
static void play_reduction(struct play *play, int kind) {
    const struct type *type = play->type;
    const bool in_place = chance(&play->own, 3);
    struct buffer from = new_buffer(type, play->count);
    struct buffer to = new_buffer(type, play->count);
    struct buffer expected = new_buffer(type, play->count);
    const bool gets = kind == 0 ? play->me == play->root : kind < 3 || play->me > 0;
    const int last = kind < 2 ? play->n - 1 : kind == 2 ? play->me : play->me - 1;
    char *input = in_place ? to.at : from.at;

    put_values(type, input, play->step, play->me, 0, play->count);
    if (gets)
        put_combined(type, expected.at, play->step, last, 0, play->count);
    else if (in_place)
        put_values(type, expected.at, play->step, play->me, 0, play->count);
    const int err =
        kind == 0 ? cf_shared_reduce(play->comm, input, to.at, play->count, &play->unit, type->op,
                                     play->root)
        : kind == 1
            ? cf_shared_allreduce(play->comm, input, to.at, play->count, &play->unit, type->op)
        : kind == 2
            ? cf_shared_scan(play->comm, input, to.at, play->count, &play->unit, type->op)
            : cf_shared_exscan(play->comm, input, to.at, play->count, &play->unit, type->op);
    check(err == MPI_SUCCESS);
    expect(&to, &expected);
    free(from.memory);
}

static void play_reduce_scatter(struct play *play) {
    const struct type *type = play->type;
    const struct cf_split split = draw_split(play, 0, play->count);
    const int own = split.counts[play->me];
    struct buffer from = new_buffer(type, split.total);
    struct buffer to = new_buffer(type, own);
    struct buffer expected = new_buffer(type, own);

    put_values(type, from.at, play->step, play->me, 0, split.total);
    put_combined(type, expected.at, play->step, play->n - 1, split.displs[play->me], own);
    check(cf_shared_reduce_scatter(play->comm, from.at, to.at, &split, &play->unit, type->op) ==
          MPI_SUCCESS);
    expect(&to, &expected);
    free(from.memory);
}

static void play_scatter(struct play *play) {
    const struct type *type = play->type;
    const struct cf_split split = draw_split(play, 0, play->count);
    const bool is_root = play->me == play->root;
    const bool in_place = is_root && chance(&play->own, 2);
    const int own = split.counts[play->me];
    const int first = split.displs[play->me];
    struct buffer from = new_buffer(type, is_root ? split.total : 0);
    struct buffer to = new_buffer(type, own);
    struct buffer expected = new_buffer(type, own);

    if (is_root)
        put_values(type, from.at, play->step, play->root, 0, split.total);
    if (!in_place)
        put_values(type, expected.at, play->step, play->root, first, own);
    check(cf_shared_scatter(play->comm, from.at, &split,
                            in_place ? from.at + first * type->extent : to.at, &play->unit,
                            play->root) == MPI_SUCCESS);
    expect(&to, &expected);
    free(from.memory);
}

static void play_gather(struct play *play, bool all) {
    const struct type *type = play->type;
    const struct cf_split split = draw_split(play, 0, play->count);
    const bool gets = all || play->me == play->root;
    const bool in_place = gets && chance(&play->own, 2);
    const int own = split.counts[play->me];
    struct buffer from = new_buffer(type, own);
    struct buffer to = new_buffer(type, gets ? split.total : 0);
    struct buffer expected = new_buffer(type, gets ? split.total : 0);
    char *input = in_place ? to.at + split.displs[play->me] * type->extent : from.at;

    put_values(type, input, play->step, play->me, 0, own);
    for (int rank = 0; gets && rank < play->n; rank++)
        put_values(type, expected.at + split.displs[rank] * type->extent, play->step, rank, 0,
                   split.counts[rank]);
    const int err =
        all ? cf_shared_allgather(play->comm, input, to.at, &split, &play->unit)
            : cf_shared_gather(play->comm, input, to.at, &split, &play->unit, play->root);
    check(err == MPI_SUCCESS);
    expect(&to, &expected);
    free(from.memory);
}

/* The units from one rank to another; the whole table is drawn alike. */
static void play_alltoall(struct play *play) {
    const struct type *type = play->type;
    const bool regular = chance(&play->alike, 2);
    const int each = play->count / play->n;
    const uint64_t table = mix(play->alike.state++);
    struct cf_split send = {.n = play->n, .counts = play->counts[0], .displs = play->displs[0], .uniform = true};
    struct cf_split receive = {.n = play->n, .counts = play->counts[1], .displs = play->displs[1], .uniform = true};

    for (int i = 0; i < play->n; i++) {
        const uint64_t out = mix(table + (uint64_t)(play->me * 64 + i));
        const uint64_t in = mix(table + (uint64_t)(i * 64 + play->me));
        send.counts[i] = regular ? each : (int)(out % (uint64_t)(2 * each + 2)) * (out >> 62 > 0);
        receive.counts[i] = regular ? each : (int)(in % (uint64_t)(2 * each + 2)) * (in >> 62 > 0);
        send.displs[i] = send.total;
        receive.displs[i] = receive.total;
        send.total += send.counts[i];
        receive.total += receive.counts[i];
    }
    struct buffer from = new_buffer(type, send.total);
    struct buffer to = new_buffer(type, receive.total);
    struct buffer expected = new_buffer(type, receive.total);
    for (int i = 0; i < play->n; i++) {
        put_values(type, from.at + send.displs[i] * type->extent, play->step, play->me * 64 + i, 0,
                   send.counts[i]);
        put_values(type, expected.at + receive.displs[i] * type->extent, play->step,
                   i * 64 + play->me, 0, receive.counts[i]);
    }
    check(cf_shared_alltoall(play->comm, from.at, &send, to.at, &receive, &play->unit, regular) ==
          MPI_SUCCESS);
    expect(&to, &expected);
    free(from.memory);
}

static void play_barrier(struct play *play) {
    check(cf_shared_barrier(play->comm) == MPI_SUCCESS);
}

enum { NKINDS = 11 };

/* One collective of this kind, with a type and about this many elements in total. */
static void play_kind(struct play *play, int kind, const struct type *type, int count) {
    play->step++;
    play->type = type;
    check(cf_unit_of(type->handle, &play->unit) == MPI_SUCCESS);
    play->count = count;
    play->root = below(&play->alike, play->n);
    (void)snprintf(where, sizeof where, "node rank %d step %d kind %d type %d count %d root %d",
                   play->me, (int)(play->step & 0xffff), kind, (int)(type - types), count,
                   play->root);
    sleep_a_while(play);
    switch (kind) {
    case 0:
        play_bcast(play);
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        play_reduction(play, kind - 1);
        break;
    case 5:
        play_reduce_scatter(play);
        break;
    case 6:
        play_scatter(play);
        break;
    case 7:
    case 8:
        play_gather(play, kind == 8);
        break;
    case 9:
        play_alltoall(play);
        break;
    default:
        play_barrier(play);
    }
}

static void play_one(struct play *play) {
    const int kind = below(&play->alike, NKINDS);
    const int drawn = below(&play->alike, 20);
    const struct type *type = &types[drawn < 18 ? drawn / 3 : drawn == 18 ? MEDIUM : BIG];

    play_kind(play, kind, type, draw_count(play, type));
}

/* Sizes at which another way is taken, and one beyond. */
static void play_all(struct play *play) {
    for (int kind = 0; kind < NKINDS - 1; kind++)
        for (const struct type *type = types; type < types + NTYPES; type++) {
            const int size = type->atom * type->natoms;
            const int bytes[] = {0, size, 240, 32768, 4 * 32768};
            for (int i = 0; i < 5; i++) {
                play_kind(play, kind, type, bytes[i] / size);
                play_kind(play, kind, type, bytes[i] / size + 1);
            }
        }
}

#endif
