/*
 * An MPI program that uses Collforge's runtime with the stub registry, linked in statically so that
 * it also sees the runtime's inside. The first argument names what it does; it exits 1 at the first
 * wrong result.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cf.h"
#include "collectives.h"
#include "comm/comm.h"
#include "data/sizes.h"
#include "place/topology.h"
#include "start/start.h"

#define check(holds)                                                                               \
    ((holds) ? (void)0                                                                             \
             : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds),                        \
                (void)PMPI_Abort(MPI_COMM_WORLD, 1)))

static int rank, size;

/* Every wrapped collective once, with right results. */
static void collectives(MPI_Comm comm, int count) {
    int me = 0, p = 0;
    check(MPI_Comm_rank(comm, &me) == MPI_SUCCESS && MPI_Comm_size(comm, &p) == MPI_SUCCESS);
    int *all = malloc((size_t)p * sizeof *all);
    int *own = malloc((size_t)(count + 1) * sizeof *own);
    check(all != NULL && own != NULL);
    for (int root = 0; root < p; root++) {
        for (int i = 0; i < count; i++) {
            own[i] = me == root ? 1000 * root + i : -1;
        }
        check(MPI_Bcast(own, count, MPI_INT, root, comm) == MPI_SUCCESS);
        for (int i = 0; i < count; i++) {
            check(own[i] == 1000 * root + i);
        }
        own[0] = me;
        /* The receive side is garbage where it is not significant. */
        check(MPI_Gather(me == root ? MPI_IN_PLACE : own, 1, MPI_INT, all, me == root ? 1 : -5,
                         me == root ? MPI_INT : MPI_DATATYPE_NULL, root, comm) == MPI_SUCCESS);
        for (int r = 0; me == root && r < p; r++) {
            check(r == me || all[r] == r);
        }
    }
    for (int i = 0; i < count; i++) {
        own[i] = me + i;
    }
    check(MPI_Allreduce(MPI_IN_PLACE, own, count, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        check(own[i] == p * (p - 1) / 2 + p * i);
    }
    free(all);
    free(own);
}

static void run_results(void) {
    char name[256];
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    int value = rank;
    collectives(MPI_COMM_WORLD, 100);
    collectives(MPI_COMM_WORLD, 0);
    collectives(MPI_COMM_SELF, 10);
    check(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half) == MPI_SUCCESS);
    collectives(half, 10);
    if (size > 1) {
        /* The first of each half, which is its highest world rank. */
        const int last[] = {(size - 1) / 2 * 2, (size - 2) / 2 * 2 + 1};
        check(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, last[1 - rank % 2], 3, &inter) ==
              MPI_SUCCESS);
        check(MPI_Allreduce(&rank, &value, 1, MPI_INT, MPI_MAX, inter) == MPI_SUCCESS);
        check(value % 2 != rank % 2);
        check(MPI_Comm_free(&inter) == MPI_SUCCESS);
    }
    check(MPI_Comm_free(&half) == MPI_SUCCESS);
    check(collforge_choice(MPI_COMM_WORLD, "bcast", 400, name, sizeof name) == MPI_SUCCESS);
    if (rank == 0) {
        printf("runs %d parameter %d choice %s version %s\n", stub_runs, stub_parameter, name,
               collforge_version());
    }
    check(collforge_choice(MPI_COMM_WORLD, "no", 400, name, sizeof name) == MPI_ERR_ARG);
}

/* More than there are communicators: a leak of one shows as no more of them. */
enum { CYCLES = 6000 };

/* Handles freed and given out again never bring back what was known of their predecessors. */
static void run_handles(void) {
    const int runs = stub_runs;
    size_t states = 0;
    size_t types = 0;
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        int data[3] = {rank, rank, rank};
        /* Every second communicator lies on one node or has one rank: nothing applies to it. */
        const int tuned = cycle % 2 == 0;
        check(MPI_Comm_split(MPI_COMM_WORLD, tuned ? 0 : rank, 0, &comm) == MPI_SUCCESS);
        check(MPI_Type_contiguous(1 + cycle % 3, MPI_INT, &type) == MPI_SUCCESS);
        check(MPI_Type_commit(&type) == MPI_SUCCESS);
        check(MPI_Bcast(data, 1, type, 0, comm) == MPI_SUCCESS);
        check(cf_type_size(type) == (int64_t)(1 + cycle % 3) * (int64_t)sizeof(int));
        for (int i = 0; i <= cycle % 3; i++) {
            check(data[i] == (tuned ? 0 : rank));
        }
        check(MPI_Type_free(&type) == MPI_SUCCESS && MPI_Comm_free(&comm) == MPI_SUCCESS);
        if (cycle == 10) {
            states = cf_handle_count(&cf_states);
            types = cf_handle_count(&cf_types);
        }
        check(cycle < 10 ||
              (cf_handle_count(&cf_states) == states && cf_handle_count(&cf_types) == types));
        check(cycle < 10 || atomic_load(&cf_states.slots)->older == NULL);
    }
    check(stub_runs - runs == CYCLES / 2);
}

static int failures = 0;

static void count_failure(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    failures++;
}

/* With COLLFORGE_FORCE=bcast=failing. */
static void run_errors(void) {
    int data = 0;
    int class = 0;
    int value = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    check(MPI_Comm_create_errhandler(count_failure, &handler) == MPI_SUCCESS);
    check(MPI_Comm_set_errhandler(comm, handler) == MPI_SUCCESS);
    check(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    /* A component's error reaches the user's handler once. */
    check(MPI_Error_class(MPI_Bcast(&data, 1, MPI_INT, 0, comm), &class) == MPI_SUCCESS);
    check(class == MPI_ERR_TRUNCATE && failures == 1);
    /* Illegal arguments give what the MPI library gives, and the variant does not run. */
    const int runs = stub_runs;
    const int errors[] = {
        MPI_Bcast(&data, 1, MPI_INT, size, comm), MPI_Bcast(&data, 1, MPI_INT, -1, comm),
        MPI_Bcast(&data, -1, MPI_INT, 0, comm), MPI_Bcast(&data, 1, MPI_DATATYPE_NULL, 0, comm),
        MPI_Allreduce(&data, &value, 1, MPI_INT, MPI_OP_NULL, comm)};
    const int expected[] = {MPI_ERR_ROOT, MPI_ERR_ROOT, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_OP};
    for (int i = 0; i < 5; i++) {
        check(MPI_Error_class(errors[i], &class) == MPI_SUCCESS);
        check(class == expected[i]);
    }
    check(failures == 6 && stub_runs == runs);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Error_class(MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_NULL), &class) == MPI_SUCCESS);
    check(class == MPI_ERR_COMM);
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

enum { THREADS = 3, ROUNDS = 40 };

static void *use_own_communicator(void *argument) {
    MPI_Comm parent = *(MPI_Comm *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        int data[2] = {rank, rank};
        check(MPI_Comm_dup(parent, &comm) == MPI_SUCCESS);
        check(MPI_Type_contiguous(2, MPI_INT, &type) == MPI_SUCCESS);
        check(MPI_Type_commit(&type) == MPI_SUCCESS);
        check(MPI_Bcast(data, 1, type, 1, comm) == MPI_SUCCESS && data[1] == 1);
        check(MPI_Allreduce(MPI_IN_PLACE, data, 2, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
        check(data[0] == size);
        check(MPI_Type_free(&type) == MPI_SUCCESS && MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    MPI_Comm comms[THREADS];
    for (int t = 0; t < THREADS; t++) {
        check(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]) == MPI_SUCCESS);
    }
    for (int t = 0; t < THREADS; t++) {
        check(pthread_create(&threads[t], NULL, use_own_communicator, &comms[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++) {
        check(pthread_join(threads[t], NULL) == 0);
    }
    for (int t = 0; t < THREADS; t++) {
        check(MPI_Comm_free(&comms[t]) == MPI_SUCCESS);
    }
    /* A handle that was freed may stay as such (cf_freed): as many as lived at once, ours among
     * them, which takes turns with the threads; not one for each round. */
    check(cf_handle_count(&cf_states) <= (size_t)THREADS * ROUNDS / 2);
}

/* The layout of the world, in its own order and reversed, against its communicators. */
static void check_layout(MPI_Comm comm) {
    struct cf_comm *found = NULL;
    char name[CF_LAYOUT_NAME_SIZE];
    int me = 0, p = 0, node_rank = 0, node_size = 0, node = 0, lane_size = 0;
    check(MPI_Comm_rank(comm, &me) == MPI_SUCCESS && MPI_Comm_size(comm, &p) == MPI_SUCCESS);
    check(cf_comm_get(comm, &found) == MPI_SUCCESS && found != NULL);
    const struct cf_layout *layout = &found->layout;
    check(layout->size == p && layout->rank == me);
    check(MPI_Comm_rank(layout->node_comm, &node_rank) == MPI_SUCCESS);
    check(MPI_Comm_size(layout->node_comm, &node_size) == MPI_SUCCESS);
    check(node_rank == layout->node_rank && node_size == layout->node_size[layout->node]);
    check(layout->node_of[me] == layout->node && layout->node_rank_of[me] == node_rank);
    check((layout->lane_comm == MPI_COMM_NULL) == (node_rank >= layout->min_node_size));
    if (layout->lane_comm != MPI_COMM_NULL) {
        check(MPI_Comm_rank(layout->lane_comm, &node) == MPI_SUCCESS && node == layout->node);
        check(MPI_Comm_size(layout->lane_comm, &lane_size) == MPI_SUCCESS);
        check(lane_size == layout->nodes);
    }
    cf_layout_name(layout, name, sizeof name);
    if (me == 0) {
        printf("layout %s\n", name);
    }
    check(fflush(stdout) == 0 && MPI_Barrier(comm) == MPI_SUCCESS);
}

static void run_layouts(void) {
    MPI_Comm reversed = MPI_COMM_NULL;
    struct cf_comm *found = NULL;
    check(cf_runtime_activate() == MPI_SUCCESS && cf_runtime_activate() == MPI_SUCCESS);
    check(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed) == MPI_SUCCESS);
    check_layout(MPI_COMM_WORLD);
    check_layout(reversed);
    check(cf_comm_get(MPI_COMM_SELF, &found) == MPI_SUCCESS && found->layout.nodes == 1);
    /* reversed stays: MPI_Finalize has to cope. */
}

/* ---- communicators that come and go, with a winner of allreduce of 400 bytes on 2x2 ---------- */

static int splits = 0;

/* Hidden communicators get MPI_ERRORS_RETURN, and no other in this program. */
int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
    int (*real)(MPI_Comm, MPI_Errhandler);
    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Comm_set_errhandler");
    splits += handler == MPI_ERRORS_RETURN;
    return real(comm, handler);
}

enum way { SPLIT, CREATE_GROUP, DUP_OF_FREED, DUP, DUP_WITH_INFO, IDUP, DUP_OF_DUP, WAYS };

/* All ranks backwards. Open MPI copies attributes here. */
static int create_group(MPI_Comm *comm) {
    int backwards[1][3] = {{size - 1, 0, -1}};
    MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all) == MPI_SUCCESS);
    check(MPI_Group_range_incl(all, 1, backwards, &group) == MPI_SUCCESS);
    const int err = MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, comm);
    check(MPI_Group_free(&group) == MPI_SUCCESS && MPI_Group_free(&all) == MPI_SUCCESS);
    return err;
}

static MPI_Comm make_comm(enum way way) {
    MPI_Comm other = MPI_COMM_NULL, comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    int err = MPI_SUCCESS;
    if (way == SPLIT || way == DUP_OF_FREED) {
        err = MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    } else if (way == CREATE_GROUP) {
        err = create_group(&comm);
    } else if (way == DUP_WITH_INFO) {
        err = MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    }
#if !defined(OPEN_MPI) /* there it ends the making of communicators: place/connect.c */
    else if (way == IDUP) {
        err = MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    }
#endif
    else {
        err = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    check(err == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    if (way == DUP_OF_FREED) {
        collectives(comm, 100);
    }
    if (way == DUP_OF_DUP || way == DUP_OF_FREED) {
        other = comm;
        check(MPI_Comm_dup(other, &comm) == MPI_SUCCESS && MPI_Comm_free(&other) == MPI_SUCCESS);
    }
    return comm;
}

static int expected_or(int i) {
    int all = 0;
    for (int r = 0; r < size; r++) {
        all |= r + i;
    }
    return all;
}

static void reduce(MPI_Comm comm, MPI_Op op, int expected_splits, int expected_runs) {
    const int before = stub_runs;
    int own[100], all[100];
    for (int i = 0; i < 100; i++) {
        own[i] = rank + i;
    }
    splits = 0;
    check(MPI_Allreduce(own, all, 100, MPI_INT, op, comm) == MPI_SUCCESS);
    for (int i = 0; i < 100; i++) {
        check(all[i] == (op == MPI_BOR ? expected_or(i) : size * (size - 1) / 2 + size * i));
    }
    check(splits == expected_splits && stub_runs - before == expected_runs);
}

/* What duplicates of the world have in common with it is never made again. */
static void check_shared(MPI_Comm comm, bool shared) {
    struct cf_state *state = NULL, *of_world = NULL;
    int me = 0, p = 0;
    check(cf_state_of(comm, &state) == MPI_SUCCESS);
    check(MPI_Comm_rank(comm, &me) == MPI_SUCCESS && MPI_Comm_size(comm, &p) == MPI_SUCCESS);
    check(state->comm.layout.rank == me && state->comm.layout.size == p);
    check(cf_state_of(MPI_COMM_WORLD, &of_world) == MPI_SUCCESS);
    check((state->comm.layout.node_of == of_world->comm.layout.node_of) == shared);
}

static void run_second(void) {
    char name[256] = "";
    MPI_Comm comm = MPI_COMM_NULL;
    int data = 0;
    reduce(MPI_COMM_WORLD, MPI_BOR, 2, 1);
    for (int cycle = 0; cycle < 20 * WAYS; cycle++) {
        const enum way way = (enum way)(cycle % WAYS);
        const int calls = cycle / WAYS % 4;
        comm = make_comm(way);
        /* What one rank asks, and calls that no variant serves, do not count. */
        if (rank == 0 && calls > 0) {
            check(collforge_choice(comm, "allreduce", 400, name, sizeof name) == MPI_SUCCESS);
        }
        if (calls > 0) {
            check(MPI_Bcast(&data, 1, MPI_INT, 0, comm) == MPI_SUCCESS);
        }
        for (int call = 0; call < calls; call++) {
            reduce(comm, MPI_BOR, call == 1 ? 2 : 0, call > 0);
        }
        if (calls > 0) {
            check_shared(comm, way >= DUP);
        }
        /* As Open MPI's Fortran routine frees it. */
        check((cycle % 8 < 4 ? MPI_Comm_free(&comm) : PMPI_Comm_free(&comm)) == MPI_SUCCESS);
        /* Handles come again: with other ranks, and a size for which nothing is tuned. */
        check(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm) == MPI_SUCCESS);
        collectives(comm, 100);
        check(MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
    /* MPI_Finalize meets duplicates with and without calls. */
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    reduce(comm, MPI_BOR, 0, 0);
    check(MPI_Comm_dup(comm, &comm) == MPI_SUCCESS);
    /* A sum may show in its bits who has made it: it does not change from call to call. */
    comm = make_comm(DUP);
    reduce(comm, MPI_SUM, 2, 1);
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

/* How many of 20 calls a variant serves, one of which is native because it is the first. */
static int served(MPI_Comm comm, int native_ms, int variant_ms) {
    const int before = stub_runs;
    stub_native_ms = native_ms;
    stub_variant_ms = variant_ms;
    for (int call = 0; call < 20; call++) {
        int data[16] = {rank == 0 ? 100 + call : 0};
        check(MPI_Bcast(data, 16, MPI_INT, 0, comm) == MPI_SUCCESS && data[0] == 100 + call);
    }
    return stub_runs - before;
}

/*
 * Trials after 0.3 s. Native serves calls of 30 ms until they are 0.3 s: 10 calls, or fewer if the
 * shortest timed one took longer on some rank, and one more as a communicator's first call. Of the
 * 20 calls, 6 of the 12 in the trial follow, and at most 3 more: 5 with 6 calls of 50 ms.
 */
static void run_wait(void) {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    const int first = served(comm, 30, 0);
    check(first >= 4 && first <= 7);
    check(served(comm, 30, 0) >= 16);
    check(served(comm, 0, 0) == 20);
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
    /* The first trial has shown that one costs next to nothing: only the timed calls wait. */
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    check(served(comm, 30, 0) == 6 + 3);
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

/* Prints how many of 20 calls a variant serves that is slower than native, or faster. */
static void run_learn(void) {
    const int slow = getenv("PROGRAM_IS_SLOW") != NULL;
    const int runs = served(MPI_COMM_WORLD, slow ? 0 : 10, slow ? 10 : 0);
    if (rank == 0) {
        printf("%d\n", runs);
    }
}

/* With a point of the map for bcast and allreduce of 64 bytes. What runs is in the environment. */
static void run_guard(void) {
    const char *guard = getenv("COLLFORGE_GUARD");
    const int on = guard == NULL || strcmp(guard, "0") != 0;
    const int reductions = guard != NULL && strcmp(guard, "reductions") == 0;
    MPI_Comm comm = MPI_COMM_NULL;
    for (int again = 0; again < 2; again++) {
        check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        /* Far slower: a single call. Faster: its half of 12 calls, and all that follow. */
        check(served(comm, 0, on ? 300 : 5) == (on ? 1 : 19));
        check(served(comm, 0, 0) == (on ? 0 : 20));
        check(MPI_Comm_free(&comm) == MPI_SUCCESS);
        check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        check(served(comm, 30, 0) == (on ? 6 + 7 : 19));
        check(served(comm, 30, 0) == 20);
        check(MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
    /* The bits of a sum do not change from call to call, unless that is allowed. */
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    const int before = stub_runs;
    for (int call = 0; call < 3; call++) {
        int own[16] = {0}, all[16] = {0};
        own[0] = rank;
        check(MPI_Allreduce(own, all, 16, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
        check(all[0] == size * (size - 1) / 2);
    }
    check(stub_runs - before == (reductions ? 2 : 3));
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

/* 50 calls of allreduce, 38 of them of 400 bytes, and 8 of bcast, 3 on a duplicate. */
static void run_usage(void) {
    MPI_Comm comm = MPI_COMM_NULL;
    int own[100] = {0}, all[100] = {0};
    for (int call = 0; call < 42; call++) {
        check(MPI_Allreduce(own, all, call < 30 ? 100 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) ==
              MPI_SUCCESS);
    }
    for (int call = 0; call < 5; call++) {
        check(MPI_Bcast(own, 100, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    }
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    for (int call = 0; call < 8; call++) {
        check(MPI_Allreduce(own, all, 100, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS);
    }
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    for (int call = 0; call < 3; call++) {
        check(MPI_Bcast(own, 100, MPI_INT, 0, comm) == MPI_SUCCESS);
    }
    check(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } commands[] = {{"results", run_results}, {"handles", run_handles}, {"errors", run_errors},
                    {"threads", run_threads}, {"second", run_second},   {"guard", run_guard},
                    {"wait", run_wait},       {"layouts", run_layouts}, {"usage", run_usage},
                    {"learn", run_learn}};
    const char *command = argc > 1 ? argv[1] : "";
    int provided = 0;
    if (strcmp(command, "threads") == 0) {
        check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    } else {
        check(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    }
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
    check(MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(command, commands[i].name) == 0) {
            commands[i].run();
        }
    }
    check(MPI_Finalize() == MPI_SUCCESS);
    check(cf_handle_count(&cf_states) == 0);
    return 0;
}
