/*
 * The one-time costs of starting, of each communicator and of each hybrid package: collforge probe
 * startup. Linked with the runtime's objects and --wrap: of cf_presence_agree, the first function
 * that MPI_Init calls after the MPI library's own, so that both parts can be timed, and of
 * cf_layout_discover, which makes the tables of nodes and node ranks.
 *
 *   communicators COUNT
 *
 * Times what MPI_Init does after the MPI library's part. Then COUNT communicators of all ranks in
 * turn. They are duplicates of one without a state, so that each is new to the runtime. Timed are
 * the duplication, stage one (layout and rules, local), stage two (communicators of nodes and
 * lanes, collective), and freeing after either stage or none. Then COUNT packages of
 * collforge_hybrid.h in turn: creating each, of that its tables apart, allocating a hybrid piece of
 * 1 MiB, initialising a persistent allgather in it, and freeing all. Prints seconds (of the slowest
 * rank) and bytes (from malloc, of the largest rank) as JSON.
 *
 * Each takes up to three of CF_MOST_HIDDEN (connect.h) communicators, so COUNT is at most 160.
 */
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "collforge_hybrid.h"
#include "comm/comm.h"

enum { MOST = 160, WARM_UP = 5 };

static int rank;
static MPI_Comm comms[MOST];
static MPI_Comm original;
static double library_started; /* on the node's clock */
static double in_tables;       /* seconds in cf_layout_discover, so far */

struct phase {
    double seconds[MOST];
    double bytes; /* of one communicator */
};

static double now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool __real_cf_presence_agree(void);
bool __wrap_cf_presence_agree(void);
bool __wrap_cf_presence_agree(void) {
    library_started = now();
    return __real_cf_presence_agree();
}

int __real_cf_layout_discover(struct cf_layout *layout, MPI_Comm comm, bool *of_world);
int __wrap_cf_layout_discover(struct cf_layout *layout, MPI_Comm comm, bool *of_world);
int __wrap_cf_layout_discover(struct cf_layout *layout, MPI_Comm comm, bool *of_world) {
    const double begin = now();
    const int err = __real_cf_layout_discover(layout, comm, of_world);

    in_tables += now() - begin;
    return err;
}

static size_t allocated(void) {
#if __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 info = mallinfo2();
#else
    const struct mallinfo info = mallinfo();
#endif
    return (size_t)info.uordblks + (size_t)info.hblkhd;
}

static int duplicate(MPI_Comm *comm) {
    return PMPI_Comm_dup(original, comm);
}

static int stage_one(MPI_Comm *comm) {
    struct cf_state *state = NULL;
    const int err = cf_state_of(*comm, &state);
    return err == MPI_SUCCESS && state->rules == NULL ? MPI_ERR_OTHER : err;
}

static int stage_two(MPI_Comm *comm) {
    struct cf_comm *found = NULL;
    const int err = cf_comm_get(*comm, &found);
    return err == MPI_SUCCESS && found == NULL ? MPI_ERR_OTHER : err;
}

/* Applies act to each communicator; all ranks begin together. */
static bool run(int (*act)(MPI_Comm *comm), int count, struct phase *phase) {
    const size_t before = allocated();
    for (int i = 0; i < count; i++) {
        if (PMPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS) {
            return false;
        }
        const double begin = PMPI_Wtime();
        if (act(&comms[i]) != MPI_SUCCESS) {
            return false;
        }
        phase->seconds[i] = PMPI_Wtime() - begin;
    }
    phase->bytes = ((double)allocated() - (double)before) / count;
    return true;
}

/* The one-time costs of a program with one copy per node (Zhou et al., 2020, Table 2). */
enum { CREATE, ALLOC, INIT, FREE, TABLES, PARTS };
enum { PIECE = 1 << 20 };

static int time_package(double seconds[PARTS]) {
    struct collforge_hybrid *hybrid = NULL;
    struct collforge_hybrid_request *request = NULL;
    void *piece = NULL;
    const double tables = in_tables;
    double times[TABLES + 1] = {PMPI_Wtime()};
    int err = collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);

    times[ALLOC] = PMPI_Wtime();
    if (err == MPI_SUCCESS) {
        err = collforge_hybrid_alloc(hybrid, PIECE, &piece);
    }
    times[INIT] = PMPI_Wtime();
    if (err == MPI_SUCCESS) {
        err = collforge_hybrid_allgather_init(piece, PIECE / hybrid->size, MPI_BYTE, hybrid,
                                              &request);
    }
    times[FREE] = PMPI_Wtime();
    if (err == MPI_SUCCESS) {
        err = collforge_hybrid_request_free(&request);
    }
    if (err == MPI_SUCCESS) {
        err = collforge_hybrid_free(&hybrid);
    }
    times[TABLES] = PMPI_Wtime();
    for (int part = 0; part < TABLES; part++) {
        seconds[part] = times[part + 1] - times[part];
    }
    seconds[TABLES] = in_tables - tables;
    seconds[CREATE] -= seconds[TABLES];
    return err;
}

static bool run_packages(int count, struct phase phases[PARTS]) {
    double seconds[PARTS] = {0};
    for (int i = 0; i < count; i++) {
        if (PMPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS || time_package(seconds) != MPI_SUCCESS) {
            return false;
        }
        for (int part = 0; part < PARTS; part++) {
            phases[part].seconds[i] = seconds[part];
        }
    }
    return true;
}

static bool print(const char *name, struct phase *phase, int count) {
    const void *source = rank == 0 ? MPI_IN_PLACE : (void *)phase->seconds;
    const void *bytes = rank == 0 ? MPI_IN_PLACE : (void *)&phase->bytes;
    if (PMPI_Reduce(source, phase->seconds, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD) !=
            MPI_SUCCESS ||
        PMPI_Reduce(bytes, &phase->bytes, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD) !=
            MPI_SUCCESS) {
        return false;
    }
    if (rank != 0) {
        return true;
    }
    printf(", \"%s\": {\"bytes\": %.0f, \"seconds\": [", name, phase->bytes);
    for (int i = 0; i < count; i++) {
        printf("%s%.9f", i == 0 ? "" : ", ", phase->seconds[i]);
    }
    printf("]}");
    return true;
}

/* Seconds from the last rank of a node leaving the MPI library's MPI_Init to the last leaving ours,
 * on the slowest node. */
static bool print_start(double started) {
    double times[] = {library_started, started};
    MPI_Comm node = MPI_COMM_NULL;
    bool good = PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                                     &node) == MPI_SUCCESS;

    good = good &&
           PMPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, node) == MPI_SUCCESS &&
           PMPI_Comm_free(&node) == MPI_SUCCESS;
    const double own = times[1] - times[0];
    double most = 0;
    good =
        good && PMPI_Reduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (rank == 0 && good) {
        printf("{\"start\": %.9f", most);
    }
    return good;
}

static bool measure(int count) {
    static struct phase unused, dup, one, two, free_none, free_one, free_two, packages[PARTS];
    bool good = PMPI_Comm_split(MPI_COMM_WORLD, 0, rank, &original) == MPI_SUCCESS;
    good = good && run(duplicate, WARM_UP, &unused) && run(stage_two, WARM_UP, &unused);
    good = good && run(PMPI_Comm_free, WARM_UP, &unused);

    good = good && run(duplicate, count, &unused) && run(PMPI_Comm_free, count, &free_none);
    good = good && run(duplicate, count, &unused) && run(stage_one, count, &unused);
    good = good && run(PMPI_Comm_free, count, &free_one);
    good = good && run(duplicate, count, &dup) && run(stage_one, count, &one);
    good = good && run(stage_two, count, &two) && run(PMPI_Comm_free, count, &free_two);

    good = good && run_packages(WARM_UP, packages) && run_packages(count, packages);

    good = good && print("dup", &dup, count) && print("stage_one", &one, count);
    good = good && print("stage_two", &two, count) && print("free", &free_none, count);
    good = good && print("free_one", &free_one, count) && print("free_two", &free_two, count);
    good = good && print("create", &packages[CREATE], count);
    good = good && print("tables", &packages[TABLES], count);
    good = good && print("alloc", &packages[ALLOC], count);
    return good && print("init", &packages[INIT], count) && print("hybrid", &packages[FREE], count);
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 0;
    const int err = MPI_Init(&argc, &argv);
    const double started = now();
    if (err != MPI_SUCCESS || count < 0 || count > MOST ||
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) {
        return EXIT_FAILURE;
    }
    if (!print_start(started) || (count > 0 && !measure(count))) {
        (void)PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        puts("}");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
