/*
 * The collectives of collforge_hybrid.h, called as a program calls them.
 *
 *   hybrid_calls results SEED      every collective, every root, several sizes
 *   hybrid_calls order SEED STEPS  collectives in a random order, by ranks that are late at random
 *   hybrid_calls waits SEED STEPS  for whom on its node a rank has waited after a collective
 *   hybrid_calls errors            what is refused, on all ranks alike
 *   hybrid_calls requests          persistent forms
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collforge_hybrid.h"

#define check(holds)                                                                               \
    ((holds) ? (void)0                                                                             \
             : (fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, rank, now, #holds), \
                (void)PMPI_Abort(MPI_COMM_WORLD, 1)))

enum { MOST = 30011, TYPES = 2 };

static int rank, size;
static char now[256] = "start";
static struct collforge_hybrid *hybrid;

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Every byte varies. Sums of up to 15 ranks fit into an int. */
static int value(uint64_t seed, int of, int block, int i) {
    return (int)(mix(seed + (uint64_t)of * 1000003 + (uint64_t)block * 101 + (uint64_t)i * 7) % (1 << 27));
}

/* ---- one call of each collective ------------------------------------------------------------- */

enum which { BCAST, ALLGATHER, ALLGATHERV, GATHER, SCATTER, ALLREDUCE, REDUCE, BLOCK, COLLECTIVES };

static const char *const names[] = {"bcast",     "allgather", "allgatherv", "gather",
                                    "scatter",   "allreduce", "reduce",     "reduce_scatter_block"};

struct call {
    enum which which;
    int count, root;
    uint64_t seed;
    int counts[64]; /* of allgatherv */
    int *all;       /* the piece */
    int *mine;      /* sendbuf: one of these, drawn for each call and rank */
    int *inputs[2]; /* own memory, and a block of a piece */
};

static bool on_my_node(int of) {
    return hybrid->node_of[of] == hybrid->node;
}

static int displacement(const struct call *call, int block) {
    int at = 0;
    if (call->which != ALLGATHERV)
        return block * call->count;
    for (int i = 0; i < block; i++)
        at += call->counts[i];
    return at;
}

static int count_of(const struct call *call, int block) {
    return call->which == ALLGATHERV ? call->counts[block] : call->count;
}

static void fill(const struct call *call, int of, int block) {
    for (int i = 0; i < count_of(call, block); i++)
        call->all[displacement(call, block) + i] = value(call->seed, of, block, i);
}

/* This rank's input, in the piece or in its own memory. */
static void put(const struct call *call) {
    const int blocks = call->which == BLOCK ? size : 1;
    switch (call->which) {
    case BCAST:
        if (rank == call->root)
            fill(call, rank, 0);
        break;
    case SCATTER:
        for (int block = 0; block < size && rank == call->root; block++)
            fill(call, rank, block);
        break;
    case ALLREDUCE:
    case REDUCE:
    case BLOCK:
        for (int i = 0; i < blocks * call->count; i++)
            call->mine[i] = value(call->seed, rank, i / call->count, i % call->count);
        break;
    default:
        fill(call, rank, rank);
    }
}

static int run(const struct call *call) {
    const int n = call->count;
    switch (call->which) {
    case BCAST:
        return collforge_hybrid_bcast(call->all, n, MPI_INT, call->root, hybrid);
    case ALLGATHER:
        return collforge_hybrid_allgather(call->all, n, MPI_INT, hybrid);
    case ALLGATHERV:
        return collforge_hybrid_allgatherv(call->all, call->counts, MPI_INT, hybrid);
    case GATHER:
        return collforge_hybrid_gather(call->all, n, MPI_INT, call->root, hybrid);
    case SCATTER:
        return collforge_hybrid_scatter(call->all, n, MPI_INT, call->root, hybrid);
    case ALLREDUCE:
        return collforge_hybrid_allreduce(call->mine, call->all, n, MPI_INT, MPI_SUM, hybrid);
    case REDUCE:
        return collforge_hybrid_reduce(call->mine, call->all, n, MPI_INT, MPI_SUM, call->root, hybrid);
    default:
        return collforge_hybrid_reduce_scatter_block(call->mine, call->all, n, MPI_INT, MPI_SUM, hybrid);
    }
}

static int sum(const struct call *call, int block, int i) {
    int total = 0;
    for (int of = 0; of < size; of++)
        total += value(call->seed, of, block, i);
    return total;
}

/* Everything that this node's piece must hold now, whoever put it there. */
static void verify(const struct call *call) {
    const bool rooted = call->which == GATHER || call->which == REDUCE;
    const int blocks = call->which == BCAST || call->which == ALLREDUCE || call->which == REDUCE ? 1 : size;
    for (int block = 0; block < blocks && (!rooted || on_my_node(call->root)); block++) {
        if ((call->which == SCATTER || call->which == BLOCK) && !on_my_node(block))
            continue;
        for (int i = 0; i < count_of(call, block); i++) {
            const int is = call->all[displacement(call, block) + i];
            const bool sums = call->which >= ALLREDUCE;
            const int of = call->which == BCAST || call->which == SCATTER ? call->root : block;
            check(is == (sums ? sum(call, block, i) : value(call->seed, of, block, i)));
        }
    }
}

static struct call draw(const struct call *memory, uint64_t seed, enum which which, int count, int root) {
    struct call call = {.which = which, .count = count, .root = root, .seed = seed, .all = memory->all};
    call.mine = memory->inputs[mix(seed + (uint64_t)rank) % 2];
    for (int of = 0; of < size; of++)
        call.counts[of] = (int)(mix(seed + (uint64_t)of) % (uint64_t)(2 * count + 1));
    snprintf(now, sizeof now, "%s, %d ints, root %d, seed %llu", names[which], count, root,
             (unsigned long long)seed);
    return call;
}

static void give_memory(struct call *call, int most) {
    const size_t bytes = 2 * (size_t)most * (size_t)size * sizeof(int);
    check(collforge_hybrid_alloc(hybrid, (MPI_Aint)bytes, &call->all) == MPI_SUCCESS);
    call->inputs[0] = malloc(bytes + 1);
    check(call->inputs[0] != NULL);
    int *shared = NULL;
    check(collforge_hybrid_alloc(hybrid, (MPI_Aint)bytes * size, &shared) == MPI_SUCCESS);
    call->inputs[1] = collforge_hybrid_own(hybrid, shared, (MPI_Aint)bytes);
}

static void results(uint64_t seed) {
    const int counts[] = {0, 1, 3, 1000, MOST};
    struct call memory = {0};
    give_memory(&memory, MOST);
    for (int which = 0; which < COLLECTIVES; which++) {
        for (int c = 0; c < 5; c++) {
            for (int root = 0; root < size; root++) {
                struct call call = draw(&memory, mix(seed++), (enum which)which, counts[c], root);
                check(collforge_hybrid_sync(hybrid) == MPI_SUCCESS);
                put(&call);
                check(run(&call) == MPI_SUCCESS);
                verify(&call);
            }
        }
    }
    free(memory.inputs[0]);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void be_late(uint64_t number) {
    if (number % 4 == 0) {
        const struct timespec time = {0, (long)(number / 4 % 20000)};
        nanosleep(&time, NULL);
    }
}

/* A sync stands only where the API asks for one: before a rank stores where another may be loading
 * the last result. Reductions do without: only this rank stores its input, which nobody reads after
 * its call, even where it is in a piece. */
static void order(uint64_t seed, int steps) {
    struct call memory = {0};
    give_memory(&memory, 64);
    for (int step = 0; step < steps; step++) {
        const uint64_t number = mix(seed + (uint64_t)step);
        struct call call = draw(&memory, number, (enum which)(number % COLLECTIVES), (int)(number / 64 % 64),
                                (int)(number / 8192 % (uint64_t)size));
        be_late(mix(number + (uint64_t)rank));
        if (call.which < ALLREDUCE)
            check(collforge_hybrid_sync(hybrid) == MPI_SUCCESS);
        put(&call);
        check(run(&call) == MPI_SUCCESS);
        be_late(mix(number + 64 + (uint64_t)rank));
        verify(&call);
    }
    free(memory.inputs[0]);
}

/* Every collective, also one of no data, has the ranks of a node wait for those with data in it: what
 * they have stored before is there, and after a second one, where all had to come, they may store
 * again. A barrier has them wait for all. */
static void waits(uint64_t seed, int steps) {
    struct call memory = {0};
    int *places = NULL;
    give_memory(&memory, 8);
    check(collforge_hybrid_alloc(hybrid, size * 64, &places) == MPI_SUCCESS);
    for (int step = 1; step <= steps; step++) {
        struct call call = draw(&memory, mix(seed + (uint64_t)step), (enum which)(step % COLLECTIVES),
                                step / COLLECTIVES % 3 * 2, step / 5 % size);
        be_late(mix(call.seed + (uint64_t)rank));
        places[16 * rank] = step;
        check(run(&call) == MPI_SUCCESS);
        const bool from_root = call.which == BCAST || call.which == SCATTER;
        for (int of = 0; of < size; of++)
            check(!on_my_node(of) || (from_root && of != call.root) || places[16 * of] == step);
        be_late(mix(call.seed + 64 + (uint64_t)rank));
        check((from_root ? collforge_hybrid_sync(hybrid) : run(&call)) == MPI_SUCCESS);

        be_late(mix(call.seed + 128 + (uint64_t)rank));
        places[16 * rank] = -step;
        check(collforge_hybrid_barrier(hybrid) == MPI_SUCCESS);
        for (int of = 0; of < size; of++)
            check(!on_my_node(of) || places[16 * of] == -step);
        check(collforge_hybrid_barrier(hybrid) == MPI_SUCCESS);
    }
    free(memory.inputs[0]);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int class_of(int code) {
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    return found;
}

static void errors(void) {
    MPI_Datatype strided = MPI_DATATYPE_NULL;
    int *all = NULL;
    int own[4] = {0};
    MPI_Comm_set_errhandler(hybrid->comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(2, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    check(collforge_hybrid_alloc(hybrid, 4 * size * (MPI_Aint)sizeof(int), &all) == MPI_SUCCESS);
    check(class_of(collforge_hybrid_bcast(all, 1, strided, 0, hybrid)) == MPI_ERR_TYPE);
    check(class_of(collforge_hybrid_bcast(all, 1, MPI_DATATYPE_NULL, 0, hybrid)) == MPI_ERR_TYPE);
    check(class_of(collforge_hybrid_bcast(all, -1, MPI_INT, 0, hybrid)) == MPI_ERR_COUNT);
    check(class_of(collforge_hybrid_bcast(all, 1 << 30, MPI_INT, 0, hybrid)) == MPI_ERR_COUNT);
    check(class_of(collforge_hybrid_bcast(all, 1, MPI_INT, size, hybrid)) == MPI_ERR_ROOT);
    check(class_of(collforge_hybrid_bcast(all, 1, MPI_INT, -1, hybrid)) == MPI_ERR_ROOT);
    check(class_of(collforge_hybrid_bcast(own, 1, MPI_INT, 0, hybrid)) == MPI_ERR_BUFFER);
    check(class_of(collforge_hybrid_allgather(all, 5, MPI_INT, hybrid)) == MPI_ERR_BUFFER);
    check(class_of(collforge_hybrid_allgather(all + 1, 4, MPI_INT, hybrid)) == MPI_ERR_BUFFER);
    check(class_of(collforge_hybrid_allreduce(own, all, 1, MPI_INT, MPI_OP_NULL, hybrid)) == MPI_ERR_OP);
    check(collforge_hybrid_allgather(all, 4, MPI_INT, hybrid) == MPI_SUCCESS);
    struct collforge_hybrid *copy = hybrid;
    check(collforge_hybrid_free(&hybrid) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) /* found without the others */
        check(class_of(collforge_hybrid_allgather(all, 4, MPI_INT, copy)) == MPI_ERR_COMM);
    MPI_Type_free(&strided);
}

/* ---- persistent forms ------------------------------------------------------------------------ */

static MPI_Datatype summed = MPI_DATATYPE_NULL;

/* For one type alone: it counts on the handle that the program has of it. */
static void add(void *in, void *inout, int *length, MPI_Datatype *type) {
    check(*type == summed);
    for (int i = 0; i < *length; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* A package at the address of the one that a request was made for. */
static void another_package(void) {
    struct collforge_hybrid_request *old = NULL;
    struct collforge_hybrid_request *none = NULL;
    const struct collforge_hybrid *first = hybrid;
    int *all = NULL;
    check(collforge_hybrid_alloc(hybrid, size * (MPI_Aint)sizeof(int), &all) == MPI_SUCCESS);
    check(collforge_hybrid_allgather_init(all, 1, MPI_INT, hybrid, &old) == MPI_SUCCESS);
    check(collforge_hybrid_free(&hybrid) == MPI_SUCCESS);
    check(collforge_hybrid_create(MPI_COMM_WORLD, &hybrid) == MPI_SUCCESS);
    check(class_of(collforge_hybrid_start(old)) == MPI_ERR_REQUEST);
    if (rank == 0 && first != hybrid)
        fprintf(stderr, "the new package stands elsewhere\n");
    check(collforge_hybrid_request_free(&old) == MPI_SUCCESS);
    check(class_of(collforge_hybrid_start(none)) == MPI_ERR_REQUEST);
}

static void requests(void) {
    struct collforge_hybrid_request *gather = NULL;
    struct collforge_hybrid_request *sum_up = NULL;
    struct collforge_hybrid_request *none = NULL;
    MPI_Datatype one = MPI_DATATYPE_NULL;
    MPI_Datatype many = MPI_DATATYPE_NULL;
    MPI_Op sum_of_ones = MPI_OP_NULL;
    int *all = NULL;
    int *total = NULL;
    int own = 0;
    MPI_Comm_set_errhandler(hybrid->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(collforge_hybrid_alloc(hybrid, size * (MPI_Aint)sizeof(int), &all) == MPI_SUCCESS);
    check(collforge_hybrid_alloc(hybrid, sizeof(int), &total) == MPI_SUCCESS);
    /* Freed at once; another one may then have its handle. */
    MPI_Type_contiguous(1, MPI_INT, &one);
    MPI_Type_commit(&one);
    check(collforge_hybrid_allgather_init(all, 1, one, hybrid, &gather) == MPI_SUCCESS);
    MPI_Type_contiguous(1, MPI_INT, &summed);
    MPI_Type_commit(&summed);
    MPI_Op_create(add, 1, &sum_of_ones);
    check(collforge_hybrid_allreduce_init(&own, total, 1, summed, sum_of_ones, hybrid, &sum_up) == MPI_SUCCESS);
    MPI_Type_free(&one);
    MPI_Type_contiguous(64, MPI_INT, &many);
    MPI_Type_commit(&many);
    check(class_of(collforge_hybrid_allgather_init(all, 2, MPI_INT, hybrid, &none)) == MPI_ERR_BUFFER);
    check(none == NULL);
    for (int step = 0; step < 100; step++) {
        snprintf(now, sizeof now, "step %d", step);
        check(collforge_hybrid_sync(hybrid) == MPI_SUCCESS);
        all[rank] = own = step + rank;
        check(collforge_hybrid_start(gather) == MPI_SUCCESS);
        check(collforge_hybrid_start(sum_up) == MPI_SUCCESS);
        for (int of = 0; of < size; of++)
            check(all[of] == step + of);
        check(*total == size * step + size * (size - 1) / 2);
    }
    struct collforge_hybrid_request *copy = gather;
    check(collforge_hybrid_request_free(&gather) == MPI_SUCCESS && gather == NULL);
    check(collforge_hybrid_request_free(&sum_up) == MPI_SUCCESS);
    check(class_of(collforge_hybrid_start(copy)) == MPI_ERR_REQUEST);
    check(class_of(collforge_hybrid_request_free(&copy)) == MPI_ERR_REQUEST);
    MPI_Op_free(&sum_of_ones);
    MPI_Type_free(&summed);
    MPI_Type_free(&many);
    another_package();
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size <= 64);
    check(collforge_hybrid_create(MPI_COMM_WORLD, &hybrid) == MPI_SUCCESS);
    if (strcmp(what, "results") == 0 && argc > 2)
        results((uint64_t)atoll(argv[2]));
    else if (strcmp(what, "order") == 0 && argc > 3)
        order((uint64_t)atoll(argv[2]), atoi(argv[3]));
    else if (strcmp(what, "waits") == 0 && argc > 3)
        waits((uint64_t)atoll(argv[2]), atoi(argv[3]));
    else if (strcmp(what, "errors") == 0)
        errors();
    else if (strcmp(what, "requests") == 0)
        requests();
    else
        check(!"a command");
    if (hybrid != NULL)
        check(collforge_hybrid_free(&hybrid) == MPI_SUCCESS);
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
