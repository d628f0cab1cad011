/* Collectives between two groups: what MPI_* does is what PMPI_* does. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

struct inter {
    MPI_Comm comm;
    int local;
    int remote;
    bool first; /* this process is in the group whose rank 0 is the root now */
};

/* The root argument: the first group has the root. */
static int root_of(const struct inter *inter, int rank) {
    if (!inter->first)
        return 0;
    return rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
}

/* A block of a scattered reduction has an element for each combination of a rank of either group,
 * so that both groups reduce vectors of one length. */
static int block_of(const struct collective *collective, const struct inter *inter, int count) {
    const bool scattered = collective->reduces && collective->in_blocks(0, 0, 2) == 2;
    return scattered ? count * inter->remote : count;
}

static void call_twice(const struct collective *collective, const struct inter *inter, int rank,
                       int count, unsigned seed) {
    char text[CASE_SIZE];
    const int larger = inter->local > inter->remote ? inter->local : inter->remote;
    const int root = collective->rooted ? root_of(inter, rank) : 0;
    struct plain both[2];
    struct cf_args arguments[2];
    (void)snprintf(text, sizeof text, "%s@inter,groups=%d+%d,count=%d,root=%d,seed=%u",
                   collective->name, inter->local, inter->remote, count, root, seed);
    watch(NULL, text);
    for (int i = 0; i < 2; i++) {
        plain_create(&both[i], block_of(collective, inter, count), larger);
        plain_fill(&both[i], seed + 1000U * (unsigned)program.rank);
        arguments[i] = plain_arguments(&both[i], inter->comm, root);
    }
    const int native = collective->native(&arguments[0]);
    const int err = collective->call(&arguments[1]);
    expect(native == MPI_SUCCESS && err == MPI_SUCCESS, text);
    expect(memcmp(both[0].recv, both[1].recv, both[0].words * sizeof(int)) == 0, text);
    expect(memcmp(both[0].send, both[1].send, both[0].words * sizeof(int)) == 0, text);
    for (int i = 0; i < 2; i++)
        plain_free(&both[i]);
    watch(NULL, "intercommunicators");
}

static void use(struct inter *inter, bool low) {
    static const int counts[] = {0, 1, 300};
    int rank = 0;
    must(MPI_Comm_rank(inter->comm, &rank) == MPI_SUCCESS);
    must(MPI_Comm_size(inter->comm, &inter->local) == MPI_SUCCESS);
    must(MPI_Comm_remote_size(inter->comm, &inter->remote) == MPI_SUCCESS);
    must(MPI_Comm_set_errhandler(inter->comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]) || collectives[c].prefix)
            continue;
        for (int i = 0; i < 6; i++) {
            inter->first = low == (i % 2 == 0);
            call_twice(&collectives[c], inter, rank, counts[i / 2], program.seed + (unsigned)i);
        }
    }
}

/* Two groups: the first k ranks of the world, and the others. */
static void connect_groups(int k) {
    const struct place *world = &program.world;
    const bool low = world->rank < k;
    struct inter inter = {.comm = MPI_COMM_NULL};
    MPI_Comm group = MPI_COMM_NULL, merged = MPI_COMM_NULL;
    must(MPI_Comm_split(world->comm, low, world->rank, &group) == MPI_SUCCESS);
    must(MPI_Intercomm_create(group, 0, world->comm, low ? k : 0, 5, &inter.comm) == MPI_SUCCESS);
    use(&inter, low);
    must(MPI_Intercomm_merge(inter.comm, low, &merged) == MPI_SUCCESS);
    const struct place place = place_of("merged", merged);
    panel(program.engine, &place, 2, (unsigned)k);
    must(MPI_Comm_free(&merged) == MPI_SUCCESS);
    must(MPI_Comm_free(&inter.comm) == MPI_SUCCESS);
    must(MPI_Comm_free(&group) == MPI_SUCCESS);
}

void check_intercommunicators(void) {
    const int size = program.world.size;
    if (size > 1)
        connect_groups(size / 2);
    if (size > 2)
        connect_groups(1);
}
