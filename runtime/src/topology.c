#include "topology.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "numa.h"
#include "runtime.h"
#include "threads.h"

/* The processes of MPI_COMM_WORLD; their nodes, numbered by any integers below its size. */
static struct {
    MPI_Group group;
    int size;
    int threads;  /* that each of them may have inside MPI at once */
    int *node_of; /* [size] by world rank; NULL before start */
} world = {.group = MPI_GROUP_NULL};

/* A decimal number from 0 to limit; moves *text behind it. */
static bool parse_int(const char **text, int limit, int *out) {
    long number = 0;
    const char *c = *text;
    for (; *c >= '0' && *c <= '9' && number <= limit; c++)
        number = 10 * number + (*c - '0');
    if (c == *text || number > limit)
        return false;
    *text = c;
    *out = (int)number;
    return true;
}

static bool parse_placement(const char *text, int size, int *node_of) {
    for (int rank = 0; rank < size; rank++) {
        if (!parse_int(&text, size - 1, &node_of[rank]))
            return false;
        if (*text != (rank < size - 1 ? ',' : '\0'))
            return false;
        text++;
    }
    return true;
}

static bool parse_blocks(const char *text, int size, int *node_of) {
    int block = 0;
    int node = 0;
    for (int rank = 0; rank < size || *text != '\0'; node++) {
        if (*text != '\0') {
            if (!parse_int(&text, 1000000, &block) || block == 0)
                return false;
            if (*text == ',' && text[1] != '\0')
                text++;
            else if (*text != '\0')
                return false;
        }
        for (int i = 0; i < block && rank < size; i++)
            node_of[rank++] = node;
    }
    return node > 0;
}

bool cf_node_map_parse(const char *text, int size, int *node_of) {
    if (strncmp(text, "map:", 4) == 0)
        return parse_placement(text + 4, size, node_of);
    return *text != '\0' && parse_blocks(text, size, node_of);
}

/* On world rank 0: whether node_of holds pretended nodes. */
static int pretend_nodes(int *node_of, int size) {
    const char *text = getenv("COLLFORGE_NODE_MAP");
    if (text == NULL || *text == '\0')
        return 0;
    if (cf_node_map_parse(text, size, node_of))
        return 1;
    cf_warn(
        "COLLFORGE_NODE_MAP='%.80s' is neither block sizes such as 2,1 nor map: with a node from 0 "
        "to %d for each of the %d ranks; using the real nodes",
        text, size - 1, size);
    return 0;
}

/* A node is known by the lowest rank of the communicator on it. Collective. */
static int find_real_nodes(MPI_Comm comm, int rank, int *node_of) {
    MPI_Comm node_comm = MPI_COMM_NULL;
    int node = rank;
    int err = PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node_comm);
    if (err == MPI_SUCCESS)
        err = PMPI_Bcast(&node, 1, MPI_INT, 0, node_comm);
    if (err == MPI_SUCCESS)
        err = PMPI_Allgather(&node, 1, MPI_INT, node_of, 1, MPI_INT, comm);
    if (node_comm != MPI_COMM_NULL)
        (void)PMPI_Comm_free(&node_comm);
    return err;
}

int cf_topology_start(void) {
    int rank = 0;
    int pretended = 0;
    if (world.node_of != NULL)
        return MPI_SUCCESS;
    int err = PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_size(MPI_COMM_WORLD, &world.size);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_group(MPI_COMM_WORLD, &world.group);
    if (err != MPI_SUCCESS)
        return err;
    world.node_of = malloc((size_t)world.size * sizeof *world.node_of);
    if (!cf_all_agree(world.node_of != NULL)) {
        cf_topology_stop();
        return MPI_ERR_NO_MEM;
    }
    if (rank == 0)
        pretended = pretend_nodes(world.node_of, world.size);
    err = PMPI_Bcast(&pretended, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (err == MPI_SUCCESS && pretended)
        err = PMPI_Bcast(world.node_of, world.size, MPI_INT, 0, MPI_COMM_WORLD);
    else if (err == MPI_SUCCESS)
        err = find_real_nodes(MPI_COMM_WORLD, rank, world.node_of);
    const int threads = cf_threads_allowed();
    if (err == MPI_SUCCESS)
        err = PMPI_Allreduce(&threads, &world.threads, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (err != MPI_SUCCESS)
        cf_topology_stop();
    return err;
}

void cf_topology_stop(void) {
    free(world.node_of);
    world.node_of = NULL;
    if (world.group != MPI_GROUP_NULL)
        (void)PMPI_Group_free(&world.group);
}

/* nodes[r]: the node of rank r of the group; false in *known when one is outside MPI_COMM_WORLD. */
static int nodes_of_group(MPI_Group group, int size, int *nodes, bool *known) {
    int *ranks = malloc((size_t)size * sizeof *ranks);
    if (ranks == NULL)
        return MPI_ERR_NO_MEM;
    for (int rank = 0; rank < size; rank++)
        ranks[rank] = rank;
    const int err = PMPI_Group_translate_ranks(group, size, ranks, world.group, nodes);
    *known = true;
    for (int rank = 0; err == MPI_SUCCESS && rank < size; rank++) {
        if (nodes[rank] == MPI_UNDEFINED)
            *known = false;
        else
            nodes[rank] = world.node_of[nodes[rank]];
    }
    free(ranks);
    return err;
}

int cf_layout_build(struct cf_layout *layout, MPI_Comm comm) {
    int size = 0;
    int rank = 0;
    bool known = false;
    MPI_Group group = MPI_GROUP_NULL;
    int *nodes = NULL;
    memset(layout, 0, sizeof *layout);
    layout->node_comm = MPI_COMM_NULL;
    layout->lane_comm = MPI_COMM_NULL;
    layout->order_comm = MPI_COMM_NULL;

    int err = PMPI_Comm_size(comm, &size);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_rank(comm, &rank);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_group(comm, &group);
    if (err != MPI_SUCCESS)
        return err;
    nodes = malloc((size_t)size * sizeof *nodes);
    err = nodes == NULL ? MPI_ERR_NO_MEM : nodes_of_group(group, size, nodes, &known);
    if (err == MPI_SUCCESS && known && !cf_layout_from_nodes(layout, size, rank, nodes, world.size))
        err = MPI_ERR_NO_MEM;
    layout->threads = world.threads;
    free(nodes);
    (void)PMPI_Group_free(&group);
    return err;
}

static int discover_real(struct cf_layout *layout, MPI_Comm comm) {
    int size = 0;
    int rank = 0;
    int err = PMPI_Comm_size(comm, &size);
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_rank(comm, &rank);
    if (err != MPI_SUCCESS)
        return err;
    int *nodes = malloc((size_t)size * sizeof *nodes);
    if (!cf_comm_agree(comm, nodes != NULL)) {
        free(nodes);
        return MPI_ERR_NO_MEM;
    }
    err = find_real_nodes(comm, rank, nodes);
    if (err == MPI_SUCCESS && !cf_layout_from_nodes(layout, size, rank, nodes, size))
        err = MPI_ERR_NO_MEM;
    free(nodes);
    return err;
}

/* Ranks of another MPI_COMM_WORLD may know less: all build their layout alike, or none. */
int cf_layout_discover(struct cf_layout *layout, MPI_Comm comm) {
    const bool known =
        world.node_of != NULL && cf_layout_build(layout, comm) == MPI_SUCCESS && layout->size > 0;
    if (cf_comm_agree(comm, known))
        return MPI_SUCCESS;
    cf_layout_free(layout);
    memset(layout, 0, sizeof *layout);
    layout->node_comm = layout->lane_comm = layout->order_comm = MPI_COMM_NULL;
    return discover_real(layout, comm);
}

/* places: [2 * size] node and domain of each rank. The lowest rank in the same place as this one.
 */
static int first_in(const int *places, int rank) {
    int first = 0;
    while (places[2 * first] != places[2 * rank] || places[2 * first + 1] != places[2 * rank + 1])
        first++;
    return first;
}

int cf_layout_split_domains(struct cf_layout *layout, MPI_Comm comm) {
    const int size = layout->size;
    const int rank = layout->rank;
    const int threads = layout->threads;
    const int own[2] = {layout->node, cf_numa_domain()};
    int *places = malloc(3 * (size_t)size * sizeof *places);
    if (!cf_comm_agree(comm, places != NULL)) {
        free(places);
        return MPI_ERR_NO_MEM;
    }
    int *node_of = places + 2 * size;
    int err = PMPI_Allgather(own, 2, MPI_INT, places, 2, MPI_INT, comm);
    for (int r = 0; r < size && err == MPI_SUCCESS; r++)
        node_of[r] = first_in(places, r);
    cf_layout_free(layout);
    if (err == MPI_SUCCESS && !cf_layout_from_nodes(layout, size, rank, node_of, size))
        err = MPI_ERR_NO_MEM;
    layout->threads = threads;
    free(places);
    return err;
}
