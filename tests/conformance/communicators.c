/* Communicators of every kind and size, and handles that come back as something else. */
#include "conformance.h"

#include <stdlib.h>

enum { CALLS = 2, CYCLES = 120 };

static unsigned uses = 0;

/* The panel on a new communicator, which is then freed. */
static void use(const char *name, MPI_Comm comm) {
    uses++;
    if (comm == MPI_COMM_NULL)
        return;
    const struct place place = place_of(name, comm);
    panel(program.engine, &place, CALLS, uses);
    must(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

static void copies(MPI_Comm world) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    must(MPI_Comm_dup(world, &comm) == MPI_SUCCESS);
    use("dup", comm);
    must(MPI_Comm_dup_with_info(world, MPI_INFO_NULL, &comm) == MPI_SUCCESS);
    use("dup_with_info", comm);
    must(MPI_Comm_idup(world, &comm, &request) == MPI_SUCCESS);
    must(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    use("idup", comm);
}

static void splits(MPI_Comm world, int rank, int size) {
    MPI_Comm comm = MPI_COMM_NULL;
    must(MPI_Comm_split(world, rank % 2, rank, &comm) == MPI_SUCCESS);
    use("odd_even", comm);
    must(MPI_Comm_split(world, 0, -rank, &comm) == MPI_SUCCESS);
    use("reversed", comm);
    must(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm) == MPI_SUCCESS);
    use("shared", comm);
    for (int k = 1; k <= size; k++) {
        must(MPI_Comm_split(world, rank < k ? 0 : MPI_UNDEFINED, rank, &comm) == MPI_SUCCESS);
        use("first", comm);
        must(MPI_Comm_split(world, rank < k, -rank, &comm) == MPI_SUCCESS);
        use("first_and_rest_reversed", comm);
    }
}

/* Some ranks in some order, alike everywhere. */
static void choose(int *ranks, int size, unsigned seed) {
    uint64_t state = mix(program.seed) + mix(seed);
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    for (int i = size - 1; i > 0; i--) {
        const int other = (int)draw(&state, (unsigned)i + 1);
        const int swapped = ranks[i];
        ranks[i] = ranks[other];
        ranks[other] = swapped;
    }
}

static void groups(MPI_Comm world, int size) {
    int *ranks = xmalloc((size_t)size * sizeof *ranks);
    MPI_Group all = MPI_GROUP_NULL;
    must(MPI_Comm_group(world, &all) == MPI_SUCCESS);
    for (int k = 1; k <= size; k++) {
        MPI_Group some = MPI_GROUP_NULL;
        MPI_Comm comm = MPI_COMM_NULL;
        int member = 0;
        choose(ranks, size, (unsigned)k);
        must(MPI_Group_incl(all, k, ranks, &some) == MPI_SUCCESS);
        must(MPI_Comm_create(world, some, &comm) == MPI_SUCCESS);
        use("create", comm);
        must(MPI_Group_rank(some, &member) == MPI_SUCCESS);
        comm = MPI_COMM_NULL;
        if (member != MPI_UNDEFINED)
            must(MPI_Comm_create_group(world, some, 7, &comm) == MPI_SUCCESS);
        use("create_group", comm);
        must(MPI_Group_free(&some) == MPI_SUCCESS);
    }
    must(MPI_Group_free(&all) == MPI_SUCCESS);
    free(ranks);
}

static void topologies(MPI_Comm world, int rank, int size) {
    MPI_Comm comm = MPI_COMM_NULL, row = MPI_COMM_NULL;
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    const int weight = 1;
    int dims[2] = {0, 0};
    const int periods[2] = {1, 0};
    must(MPI_Dims_create(size, 2, dims) == MPI_SUCCESS);
    must(MPI_Cart_create(world, 2, dims, periods, 1, &comm) == MPI_SUCCESS);
    for (int d = 0; d < 2 && comm != MPI_COMM_NULL; d++) {
        const int remain[2] = {d == 0, d == 1};
        must(MPI_Cart_sub(comm, remain, &row) == MPI_SUCCESS);
        use("cart_sub", row);
    }
    use("cart", comm);
    int *index = xmalloc((size_t)size * sizeof *index);
    int *edges = xmalloc((size_t)size * sizeof *edges);
    for (int i = 0; i < size; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % size;
    }
    must(MPI_Graph_create(world, size, index, edges, 1, &comm) == MPI_SUCCESS);
    use("graph", comm);
    must(MPI_Dist_graph_create_adjacent(world, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL,
                                        1, &comm) == MPI_SUCCESS);
    use("dist_graph", comm);
    free(index);
    free(edges);
}

void check_communicators(void) {
    const struct place *world = &program.world;
    panel(program.engine, world, CALLS, 0);
    if (program.world_model) {
        const struct place self = place_of("self", MPI_COMM_SELF);
        const struct place all = place_of("comm_world", MPI_COMM_WORLD);
        panel(program.engine, &self, CALLS, 1);
        panel(program.engine, &all, CALLS, 1);
    }
    copies(world->comm);
    splits(world->comm, world->rank, world->size);
    groups(world->comm, world->size);
    topologies(world->comm, world->rank, world->size);
}

/* ---- handles -------------------------------------------------------------------------------- */

/* A communicator of one of several shapes; the library gives out the handle that was freed last. */
static MPI_Comm shaped(unsigned cycle) {
    const int rank = program.world.rank;
    const int colors[] = {0, rank % 2, rank, rank == 0, 0};
    const int keys[] = {rank, -rank, 0, rank, -rank};
    MPI_Comm comm = MPI_COMM_NULL;
    must(MPI_Comm_split(program.world.comm, colors[cycle % 5], keys[cycle % 5], &comm) ==
         MPI_SUCCESS);
    return comm;
}

void check_handles(void) {
    uint64_t state = mix(program.seed);
    for (unsigned cycle = 0; cycle < CYCLES; cycle++) {
        const struct place place = place_of("shaped", shaped(cycle));
        /* Types of 4 and 8 bytes in turn. */
        struct type type = {.name = "reused",
                            .words = 1 + (int)(cycle / 2 % 2),
                            .kinds = {WORD_INT, WORD_INT},
                            .offsets = {0, 4}};
        type.extent = 4 * type.words;
        const struct shape shape = {"reused", type.words, 1, {&type}};
        must(MPI_Type_contiguous(type.words, MPI_INT, &type.handle) == MPI_SUCCESS);
        must(MPI_Type_commit(&type.handle) == MPI_SUCCESS);
        for (int i = 0; i < 3; i++) {
            const struct collective *collective =
                &collectives[draw(&state, (unsigned)ncollectives)];
            struct call call = random_call(collective, &place, &state, 1 << 7);
            call.shape = &shape;
            if (collective->reduces)
                call.op = operation_for(&shape, cycle);
            if (collective_wanted(collective))
                (void)verify(program.engine, &call);
        }
        MPI_Comm comm = place.comm;
        must(MPI_Type_free(&type.handle) == MPI_SUCCESS);
        must((cycle % 2 == 0 ? MPI_Comm_free(&comm) : MPI_Comm_disconnect(&comm)) == MPI_SUCCESS);
    }
}
