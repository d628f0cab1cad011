#include "place/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/environment.h"
#include "base/library.h"
#include "base/log.h"
#include "base/runtime.h"
#include "base/threads.h"

/* The processes of MPI_COMM_WORLD and their nodes, numbered arbitrarily below its size. */
static struct {
    MPI_Group group;
    int size;
    int threads; /* of each process that may call MPI at once */
    int neighbours;
    int *node_of;   /* [size] by world rank; NULL before start */
    int *socket_of; /* [size], as in cf_layout_add_sockets; NULL: not asked */
} world = {.group = MPI_GROUP_NULL, .neighbours = 1};

/* Parses a decimal number from 0 to limit and moves *text past it. */
static bool parse_int(const char **text, int limit, int *out) {
    long number = 0;
    const char *c = *text;
    for (; *c >= '0' && *c <= '9' && number <= limit; c++) {
        number = 10 * number + (*c - '0');
    }
    if (c == *text || number > limit) {
        return false;
    }
    *text = c;
    *out = (int)number;
    return true;
}

static bool parse_placement(const char *text, int size, int *node_of) {
    for (int rank = 0; rank < size; rank++) {
        if (!parse_int(&text, size - 1, &node_of[rank])) {
            return false;
        }
        if (*text != (rank < size - 1 ? ',' : '\0')) {
            return false;
        }
        text++;
    }
    return true;
}

static bool parse_blocks(const char *text, int size, int *node_of) {
    int block = 0;
    int node = 0;
    for (int rank = 0; rank < size || *text != '\0'; node++) {
        if (*text != '\0') {
            if (!parse_int(&text, 1000000, &block) || block == 0) {
                return false;
            }
            if (*text == ',' && text[1] != '\0') {
                text++;
            } else if (*text != '\0') {
                return false;
            }
        }
        for (int i = 0; i < block && rank < size; i++) {
            node_of[rank++] = node;
        }
    }
    return node > 0;
}

bool cf_node_map_parse(const char *text, int size, int *node_of) {
    if (strncmp(text, "map:", 4) == 0) {
        return parse_placement(text + 4, size, node_of);
    }
    return *text != '\0' && parse_blocks(text, size, node_of);
}

/* On world rank 0: whether COLLFORGE_NODE_MAP has filled node_of. */
static int pretend_nodes(int *node_of, int size) {
    const char *text = cf_variable(CF_VARIABLE_NODE_MAP);
    if (text == NULL) {
        return 0;
    }
    if (cf_node_map_parse(text, size, node_of)) {
        return 1;
    }
    cf_warn(
        "COLLFORGE_NODE_MAP='%.80s' is neither block sizes such as 2,1 nor map: with a node from 0 "
        "to %d for each of the %d ranks; using the real nodes",
        text, size - 1, size);
    return 0;
}

/* Numbers a node by the lowest rank of the communicator on it. Collective. */
static int find_real_nodes(MPI_Comm comm, int rank, int *node_of) {
    MPI_Comm node_comm = MPI_COMM_NULL;
    int node = rank;
    int err = cf_mpi_comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node_comm);
    if (err == MPI_SUCCESS) {
        err = PMPI_Bcast(&node, 1, MPI_INT, 0, node_comm);
    }
    if (err == MPI_SUCCESS) {
        err = PMPI_Allgather(&node, 1, MPI_INT, node_of, 1, MPI_INT, comm);
    }
    if (node_comm != MPI_COMM_NULL) {
        (void)cf_mpi_comm_free(&node_comm);
    }
    return err;
}

int cf_topology_start(void) {
    int rank = 0;
    int pretended = 0;
    if (world.node_of != NULL) {
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CF_TRY(PMPI_Comm_size(MPI_COMM_WORLD, &world.size));
    CF_TRY(PMPI_Comm_group(MPI_COMM_WORLD, &world.group));
    world.node_of = malloc((size_t)world.size * sizeof *world.node_of);
    if (!cf_all_agree(world.node_of != NULL)) {
        cf_topology_stop();
        return MPI_ERR_NO_MEM;
    }
    if (rank == 0) {
        pretended = pretend_nodes(world.node_of, world.size);
    }
    int err = PMPI_Bcast(&pretended, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (err == MPI_SUCCESS && pretended) {
        err = PMPI_Bcast(world.node_of, world.size, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (err == MPI_SUCCESS) {
        err = find_real_nodes(MPI_COMM_WORLD, rank, world.node_of);
    }
    world.neighbours = 0;
    for (int i = 0; i < world.size; i++) {
        world.neighbours += world.node_of[i] == world.node_of[rank];
    }
    const int threads = cf_threads_allowed();
    if (err == MPI_SUCCESS) {
        err = PMPI_Allreduce(&threads, &world.threads, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    if (err != MPI_SUCCESS) {
        cf_topology_stop();
    }
    return err;
}

int cf_topology_find_sockets(void) {
    const int own = cf_seat().socket;
    if (world.socket_of != NULL) {
        return MPI_SUCCESS;
    }
    world.socket_of = malloc((size_t)world.size * sizeof *world.socket_of);
    int err = MPI_ERR_NO_MEM;
    if (cf_all_agree(world.socket_of != NULL)) {
        err = PMPI_Allgather(&own, 1, MPI_INT, world.socket_of, 1, MPI_INT, MPI_COMM_WORLD);
    }
    if (err != MPI_SUCCESS) {
        free(world.socket_of);
        world.socket_of = NULL;
    }
    return err;
}

void cf_topology_stop(void) {
    free(world.node_of);
    free(world.socket_of);
    world.node_of = world.socket_of = NULL;
    world.neighbours = 1;
    if (world.group != MPI_GROUP_NULL) {
        (void)PMPI_Group_free(&world.group);
    }
}

int cf_topology_neighbours(void) {
    return world.neighbours;
}

/* ---- ranks in MPI_COMM_WORLD ----------------------------------------------------------------- */

/*
 * Most communicators keep the order of the world. Where MPI searches groups, consecutive ranks are
 * therefore looked up in consecutive parts of the world group: p x MOST_PIECE steps for p ranks. 0:
 * the whole world group at once. (Tests compile with other parts.)
 */
enum { MOST_PIECE = 64 };
#if !defined(CF_GROUP_PIECE)
#define CF_GROUP_PIECE (cf_library.searches_groups ? MOST_PIECE : 0)
#endif

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* Translates the ranks from *found on, up to the first one outside the part of the world group that
 * begins at begin. */
static int find_in_piece(MPI_Group group, int size, int begin, int *ranks, int *found) {
    int members[MOST_PIECE];
    int asked[MOST_PIECE];
    int places[MOST_PIECE];
    MPI_Group piece = MPI_GROUP_NULL;
    const int nmembers = smaller(CF_GROUP_PIECE, world.size - begin);
    const int nasked = smaller(CF_GROUP_PIECE, size - *found);
    for (int i = 0; i < nmembers; i++) {
        members[i] = begin + i;
    }
    for (int i = 0; i < nasked; i++) {
        asked[i] = *found + i;
    }
    int err = PMPI_Group_incl(world.group, nmembers, members, &piece);
    if (err == MPI_SUCCESS) {
        err = PMPI_Group_translate_ranks(group, nasked, asked, piece, places);
    }
    for (int i = 0; err == MPI_SUCCESS && i < nasked && places[i] != MPI_UNDEFINED; i++) {
        ranks[(*found)++] = begin + places[i];
    }
    if (piece != MPI_GROUP_NULL) {
        (void)PMPI_Group_free(&piece);
    }
    return err;
}

/* ranks[r]: the rank in MPI_COMM_WORLD of rank r of the group, or MPI_UNDEFINED. */
static int find_in_world(MPI_Group group, int size, int *ranks) {
    const int piece = CF_GROUP_PIECE;
    int found = 0;
    for (int begin = 0; piece > 0 && size > piece && begin < world.size && found < size;
         begin += piece) {
        CF_TRY(find_in_piece(group, size, begin, ranks, &found));
    }
    if (found == size) {
        return MPI_SUCCESS;
    }
    const int rest = size - found;
    int *asked = malloc((size_t)rest * sizeof *asked);
    CF_TRY_MEMORY(asked);
    for (int i = 0; i < rest; i++) {
        asked[i] = found + i;
    }
    const int err = PMPI_Group_translate_ranks(group, rest, asked, world.group, ranks + found);
    free(asked);
    return err;
}

/* ranks[r]: the rank in MPI_COMM_WORLD of rank r of the communicator. *known is false if a process
 * is from outside. */
static int find_ranks(MPI_Comm comm, int size, int *ranks, bool *known) {
    MPI_Group group = MPI_GROUP_NULL;
    *known = true;
    if (comm == MPI_COMM_WORLD) {
        for (int rank = 0; rank < size; rank++) {
            ranks[rank] = rank;
        }
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Comm_group(comm, &group));
    const int err = find_in_world(group, size, ranks);
    for (int rank = 0; err == MPI_SUCCESS && rank < size; rank++) {
        *known = *known && ranks[rank] != MPI_UNDEFINED;
    }
    (void)PMPI_Group_free(&group);
    return err;
}

/* values[r]: what by_world has for ranks[r]. */
static void look_up(int *values, const int *by_world, const int *ranks, int size) {
    for (int rank = 0; rank < size; rank++) {
        values[rank] = by_world[ranks[rank]];
    }
}

/* ---- layouts --------------------------------------------------------------------------------- */

int cf_layout_build(struct cf_layout *layout, MPI_Comm comm) {
    int size = 0;
    int rank = 0;
    bool known = false;
    cf_layout_clear(layout);
    CF_TRY(PMPI_Comm_size(comm, &size));
    CF_TRY(PMPI_Comm_rank(comm, &rank));
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    int *values = ranks + size;
    int err = ranks == NULL ? MPI_ERR_NO_MEM : find_ranks(comm, size, ranks, &known);
    if (err == MPI_SUCCESS && known) {
        look_up(values, world.node_of, ranks, size);
        err = cf_layout_from_nodes(layout, size, rank, values, world.size) ? MPI_SUCCESS
                                                                           : MPI_ERR_NO_MEM;
    }
    if (err == MPI_SUCCESS && known && world.socket_of != NULL) {
        look_up(values, world.socket_of, ranks, size);
        err = cf_layout_add_sockets(layout, values) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    layout->threads = world.threads;
    free(ranks);
    return err;
}

static int discover_real(struct cf_layout *layout, MPI_Comm comm) {
    int size = 0;
    int rank = 0;
    CF_TRY(PMPI_Comm_size(comm, &size));
    CF_TRY(PMPI_Comm_rank(comm, &rank));
    int *nodes = malloc((size_t)size * sizeof *nodes);
    if (!cf_comm_agree(comm, nodes != NULL)) {
        free(nodes);
        return MPI_ERR_NO_MEM;
    }
    int err = find_real_nodes(comm, rank, nodes);
    if (err == MPI_SUCCESS && !cf_layout_from_nodes(layout, size, rank, nodes, size)) {
        err = MPI_ERR_NO_MEM;
    }
    free(nodes);
    return err;
}

/* Ranks of another MPI_COMM_WORLD may know less, so all ranks must agree on the way. */
int cf_layout_discover(struct cf_layout *layout, MPI_Comm comm, bool *of_world) {
    const bool known =
        world.node_of != NULL && cf_layout_build(layout, comm) == MPI_SUCCESS && layout->size > 0;
    *of_world = cf_comm_agree(comm, known);
    if (*of_world) {
        return MPI_SUCCESS;
    }
    cf_layout_free(layout);
    cf_layout_clear(layout);
    return discover_real(layout, comm);
}

/* ---- NUMA domains ---------------------------------------------------------------------------- */

struct place {
    int node;
    int domain;
    int rank;
};

static int compare_places(const void *left, const void *right) {
    const struct place *a = left;
    const struct place *b = right;
    if (a->node != b->node) {
        return a->node < b->node ? -1 : 1;
    }
    if (a->domain != b->domain) {
        return a->domain < b->domain ? -1 : 1;
    }
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* node_of[r]: the lowest rank in the same node and domain as rank r. */
static void find_first_ranks(struct place *places, int size, int *node_of) {
    int first = 0;
    qsort(places, (size_t)size, sizeof *places, compare_places);
    for (int i = 0; i < size; i++) {
        if (places[i].node != places[first].node || places[i].domain != places[first].domain) {
            first = i;
        }
        node_of[places[i].rank] = places[first].rank;
    }
}

int cf_layout_split_domains(struct cf_layout *layout, MPI_Comm comm) {
    const int size = layout->size;
    const int rank = layout->rank;
    const int threads = layout->threads;
    const int own = cf_seat().domain;
    int *domains = malloc((size_t)size * sizeof *domains);
    struct place *places = malloc((size_t)size * sizeof *places);
    int err = MPI_ERR_NO_MEM;
    if (!cf_comm_agree(comm, domains != NULL && places != NULL)) {
        goto cleanup;
    }
    err = PMPI_Allgather(&own, 1, MPI_INT, domains, 1, MPI_INT, comm);
    for (int r = 0; r < size && err == MPI_SUCCESS; r++) {
        places[r] = (struct place){layout->node_of[r], domains[r], r};
    }
    cf_layout_free(layout);
    if (err == MPI_SUCCESS) {
        find_first_ranks(places, size, domains);
        if (!cf_layout_from_nodes(layout, size, rank, domains, size)) {
            err = MPI_ERR_NO_MEM;
        }
    }
    layout->threads = threads;
cleanup:
    free(domains);
    free(places);
    return err;
}
