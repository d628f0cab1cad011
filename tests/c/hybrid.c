/*
 * Packages of collforge_hybrid.h against what they promise. COLLFORGE_NODE_MAP says which ranks are
 * on a node; the program reads it, too, to know what to expect. Commands that stand between `,` run in turn; each says
 * when it begins.
 *
 *   hybrid tables            communicators and translation tables, of several communicators
 *   hybrid domains           tables and memory of packages with one copy per NUMA domain
 *   hybrid memory            pieces of many sizes, stored and loaded by all ranks
 *   hybrid order SEED STEPS  ranks that are late at random find what others stored before a sync
 *   hybrid errors            what is refused, and that nothing waits
 *   hybrid full BYTES        memory that no node has; all ranks hear of it
 *   hybrid cycles NUMBER     packages made and freed; bytes of the heap by which a rank has grown
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collforge_hybrid.h"
#include "place/topology.h"

#define check(holds)                                                                               \
    ((holds) ? (void)0                                                                             \
             : (fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, rank, now, #holds), \
                (void)PMPI_Abort(MPI_COMM_WORLD, 1)))

static int rank, size;
static const char *now = "start";
static int expected_node[64]; /* by world rank, in any numbering */
static bool domains;          /* packages are of NUMA domains */

static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static struct collforge_hybrid *create(MPI_Comm comm) {
    struct collforge_hybrid *hybrid = NULL;
    check((domains ? collforge_hybrid_create_numa : collforge_hybrid_create)(comm, &hybrid) ==
          MPI_SUCCESS);
    check(hybrid != NULL);
    return hybrid;
}

static void destroy(struct collforge_hybrid *hybrid) {
    check(collforge_hybrid_free(&hybrid) == MPI_SUCCESS);
    check(hybrid == NULL);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int world_rank(MPI_Comm comm, int of) {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    int found = MPI_UNDEFINED;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(comm, &group);
    MPI_Group_translate_ranks(group, 1, &of, world, &found);
    MPI_Group_free(&world);
    MPI_Group_free(&group);
    return found;
}

static void check_communicators(const struct collforge_hybrid *hybrid) {
    int number = 0;
    MPI_Comm_size(hybrid->node_comm, &number);
    check(number == hybrid->node_size);
    MPI_Comm_rank(hybrid->node_comm, &number);
    check(number == hybrid->node_rank);
    check((hybrid->bridge_comm == MPI_COMM_NULL) == (hybrid->node_rank > 0));
    if (hybrid->bridge_comm != MPI_COMM_NULL) {
        MPI_Comm_size(hybrid->bridge_comm, &number);
        check(number == hybrid->nodes);
        MPI_Comm_rank(hybrid->bridge_comm, &number);
        check(number == hybrid->node);
    }
}

static void check_tables(MPI_Comm comm) {
    struct collforge_hybrid *hybrid = create(comm);
    int result = MPI_UNEQUAL;
    int nodes = 0;
    MPI_Comm_compare(comm, hybrid->comm, &result);
    check(result == MPI_CONGRUENT);
    for (int r = 0; r < hybrid->size; r++) {
        int before = 0;
        int first = r;
        for (int other = r - 1; other >= 0; other--) {
            const bool same = expected_node[world_rank(comm, other)] == expected_node[world_rank(comm, r)];
            before += same;
            first = same ? other : first;
        }
        check(hybrid->node_rank_of[r] == before);
        check(hybrid->node_of[r] == (first == r ? nodes : hybrid->node_of[first]));
        nodes += first == r;
    }
    check(hybrid->nodes == nodes);
    check(hybrid->node == hybrid->node_of[hybrid->rank]);
    check(hybrid->node_rank == hybrid->node_rank_of[hybrid->rank]);
    check_communicators(hybrid);
    destroy(hybrid);
}

static void tables(void) {
    MPI_Comm comm = MPI_COMM_NULL;
    check_tables(MPI_COMM_WORLD);
    check_tables(MPI_COMM_SELF);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    check_tables(comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
    check_tables(comm);
    MPI_Comm_free(&comm);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Each rank fills its block; after a sync all ranks of the node find those of all of them. */
static void check_piece(struct collforge_hybrid *hybrid, size_t block, unsigned char salt) {
    unsigned char *all = NULL;
    check(collforge_hybrid_alloc(hybrid, (MPI_Aint)(block * (size_t)size), &all) == MPI_SUCCESS);
    check(all != NULL && (uintptr_t)all % 128 == 0);
    memset(collforge_hybrid_own(hybrid, all, (MPI_Aint)block), salt + rank, block);
    check(collforge_hybrid_sync(hybrid) == MPI_SUCCESS);
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < block && hybrid->node_of[r] == hybrid->node; i++)
            check(all[(size_t)r * block + i] == (unsigned char)(salt + r));
    if (salt % 2 == 0)
        check(collforge_hybrid_release(hybrid, all) == MPI_SUCCESS);
}

static void memory(void) {
    const size_t blocks[] = {0, 1, 7, 128, 4095, 4096, 100003, 3000000};
    struct collforge_hybrid *hybrid = create(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        check_piece(hybrid, blocks[i], (unsigned char)(10 * i + i % 2));
    check(collforge_hybrid_barrier(hybrid) == MPI_SUCCESS);
    destroy(hybrid); /* and the pieces that are left */
}

/* ---- order ----------------------------------------------------------------------------------- */

static void be_late(uint64_t number) {
    if (number % 4 == 0) {
        const struct timespec time = {0, (long)(number / 4 % 20000)};
        nanosleep(&time, NULL);
    }
}

/* In step t every rank stores t, and finds t in all ranks' places between two syncs. */
static void order(uint64_t seed, int steps) {
    struct collforge_hybrid *hybrid = create(MPI_COMM_WORLD);
    int *places = NULL;
    check(collforge_hybrid_alloc(hybrid, size * 64, &places) == MPI_SUCCESS);
    for (int step = 1; step <= steps; step++) {
        const uint64_t number = mix(seed + (uint64_t)step * 64 + (uint64_t)rank);
        be_late(number);
        *(int *)collforge_hybrid_own(hybrid, places, 64) = step;
        check(step % 50 == 0 ? collforge_hybrid_barrier(hybrid) == MPI_SUCCESS
                             : collforge_hybrid_sync(hybrid) == MPI_SUCCESS);
        for (int r = 0; r < size; r++)
            if (hybrid->node_of[r] == hybrid->node)
                check(places[16 * r] == step);
        be_late(mix(number));
        check(collforge_hybrid_sync(hybrid) == MPI_SUCCESS);
    }
    destroy(hybrid);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int class_of(int code) {
    int found = MPI_SUCCESS;
    MPI_Error_class(code, &found);
    return found;
}

static void errors(void) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    struct collforge_hybrid *hybrid = create(MPI_COMM_WORLD);
    char *piece = NULL;
    char *other = NULL;
    check(class_of(collforge_hybrid_alloc(hybrid, -1, &piece)) == MPI_ERR_SIZE && piece == NULL);
    if (size > 1)
        check(class_of(collforge_hybrid_alloc(hybrid, 100 + (rank == size - 1), &piece)) ==
              MPI_ERR_SIZE);
    check(collforge_hybrid_alloc(hybrid, 100, &piece) == MPI_SUCCESS);
    check(collforge_hybrid_alloc(hybrid, 100, &other) == MPI_SUCCESS && other != piece);
    check(class_of(collforge_hybrid_release(hybrid, piece + 1)) == MPI_ERR_BASE);
    check(collforge_hybrid_release(hybrid, piece) == MPI_SUCCESS);
    /* One rank alone: nothing may wait. */
    if (rank == 0)
        check(class_of(collforge_hybrid_release(hybrid, piece)) == MPI_ERR_BASE);
    check(collforge_hybrid_release(hybrid, other) == MPI_SUCCESS);
    struct collforge_hybrid *copy = hybrid;
    destroy(hybrid);
    if (rank == 0) {
        check(class_of(collforge_hybrid_sync(copy)) == MPI_ERR_COMM);
        check(class_of(collforge_hybrid_barrier(copy)) == MPI_ERR_COMM);
        check(class_of(collforge_hybrid_alloc(copy, 8, &piece)) == MPI_ERR_COMM);
        check(class_of(collforge_hybrid_release(copy, piece)) == MPI_ERR_COMM);
        check(class_of(collforge_hybrid_free(&copy)) == MPI_ERR_COMM);
        copy = NULL;
        check(class_of(collforge_hybrid_free(&copy)) == MPI_ERR_COMM);
    }
}

static void refuse_intercommunicator(void) {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm inter = MPI_COMM_NULL;
    struct collforge_hybrid *hybrid = NULL;
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    check(class_of(collforge_hybrid_create(inter, &hybrid)) == MPI_ERR_COMM && hybrid == NULL);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void full(MPI_Aint bytes) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    struct collforge_hybrid *hybrid = create(MPI_COMM_WORLD);
    void *piece = NULL;
    check(class_of(collforge_hybrid_alloc(hybrid, bytes, &piece)) == MPI_ERR_NO_MEM);
    check(piece == NULL);
    check(collforge_hybrid_alloc(hybrid, 1000, &piece) == MPI_SUCCESS);
    destroy(hybrid);
}

static void cycles(int number) {
    size_t before = 0;
    for (int cycle = 0; cycle < number + number / 10; cycle++) {
        if (cycle == number / 10)
            before = mallinfo2().uordblks + mallinfo2().hblkhd;
        struct collforge_hybrid *hybrid = create(MPI_COMM_WORLD);
        void *piece = NULL;
        check(collforge_hybrid_alloc(hybrid, 5000, &piece) == MPI_SUCCESS);
        destroy(hybrid);
    }
    const double after = (double)(mallinfo2().uordblks + mallinfo2().hblkhd);
    const double growth = (after - (double)before) / number;
    double most = 0;
    MPI_Reduce(&growth, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("bytes-per-cycle %.2f\n", most);
}

/* ---- main ------------------------------------------------------------------------------------ */

/* On cores 0 and 1 in turn, which HWLOC_SYNTHETIC makes domains of their own. */
static void bind_to_domains(void) {
    cpu_set_t core;
    unsetenv("HWLOC_XMLFILE"); /* of Hydra; it would go before HWLOC_SYNTHETIC */
    CPU_ZERO(&core);
    CPU_SET((size_t)(rank % 2), &core);
    check(sched_setaffinity(0, sizeof core, &core) == 0);
    for (int r = 0; r < size; r++)
        expected_node[r] = 2 * expected_node[r] + r % 2;
    domains = true;
}

static void run(int nwords, char **words) {
    const char *what = nwords > 0 ? words[0] : "";

    now = what;
    domains = false;
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "case: %s\n", what);
    if (strcmp(what, "tables") == 0)
        tables();
    else if (strcmp(what, "domains") == 0) {
        bind_to_domains();
        tables();
        memory();
    } else if (strcmp(what, "unbound") == 0) {
        domains = true;
        tables();
    } else if (strcmp(what, "memory") == 0)
        memory();
    else if (strcmp(what, "order") == 0 && nwords > 2)
        order((uint64_t)atoll(words[1]), atoi(words[2]));
    else if (strcmp(what, "errors") == 0) {
        errors();
        refuse_intercommunicator();
    } else if (strcmp(what, "full") == 0 && nwords > 1)
        full((MPI_Aint)atoll(words[1]));
    else if (strcmp(what, "cycles") == 0 && nwords > 1)
        cycles(atoi(words[1]));
    else
        check(!"a command");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    const char *map = getenv("COLLFORGE_NODE_MAP");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(size <= 64 && (map == NULL || cf_node_map_parse(map, size, expected_node)));
    for (int first = 1, last = 1; last <= argc; last++)
        if (last == argc || strcmp(argv[last], ",") == 0) {
            run(last - first, argv + first);
            first = last + 1;
        }
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
