/* Computes the layout from the placement of the ranks. Makes no MPI calls. */
#include "place/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "place/topology.h"

static int *new_ints(size_t count) {
    return calloc(count > 0 ? count : 1, sizeof(int));
}

/* Numbers the nodes from 1, by first appearance; returns their number. */
static int number_nodes(int size, const int *node_of, int *number) {
    int nodes = 0;
    for (int rank = 0; rank < size; rank++) {
        if (number[node_of[rank]] == 0) {
            number[node_of[rank]] = ++nodes;
        }
    }
    return nodes;
}

/* Numbers the ranks on each node in rank order. */
static void number_ranks(struct cf_layout *layout, const int *node_of, const int *number) {
    layout->consecutive = true;
    for (int rank = 0; rank < layout->size; rank++) {
        const int node = number[node_of[rank]] - 1;
        if (rank > 0 && node < layout->node_of[rank - 1]) {
            layout->consecutive = false;
        }
        layout->node_of[rank] = node;
        layout->node_rank_of[rank] = layout->node_size[node]++;
    }
}

void cf_layout_clear(struct cf_layout *layout) {
    memset(layout, 0, sizeof *layout);
    layout->node_comm = layout->lane_comm = layout->order_comm = MPI_COMM_NULL;
}

bool cf_layout_from_nodes(struct cf_layout *layout, int size, int rank, const int *node_of,
                          int limit) {
    int *number = new_ints((size_t)limit);
    cf_layout_clear(layout);
    layout->size = size;
    layout->rank = rank;
    layout->threads = 1;
    if (number != NULL) {
        layout->nodes = number_nodes(size, node_of, number);
        layout->node_of = new_ints(2 * (size_t)size + (size_t)layout->nodes);
    }
    if (layout->node_of == NULL) {
        free(number);
        return false;
    }
    layout->node_rank_of = layout->node_of + size;
    layout->node_size = layout->node_rank_of + size;
    number_ranks(layout, node_of, number);
    free(number);
    layout->node = layout->node_of[rank];
    layout->node_rank = layout->node_rank_of[rank];
    layout->min_node_size = layout->max_node_size = layout->node_size[0];
    for (int node = 1; node < layout->nodes; node++) {
        const int node_size = layout->node_size[node];
        if (node_size < layout->min_node_size) {
            layout->min_node_size = node_size;
        }
        if (node_size > layout->max_node_size) {
            layout->max_node_size = node_size;
        }
    }
    return true;
}

/*
 * Example: two nodes, ranks 0 1 2 on the first and 3 4 on the second, k = 2. Lane 0 has 0 2 (node
 * ranks 0 and 2) and 3, lane 1 has 1 and 4: order = 0 2 3 1 4, lane_size = 3 2, share_size = 2 1 1
 * 1, share_begin = 0 2 3 4.
 */
static bool build_lanes(struct cf_lanes *lanes, const struct cf_layout *layout, int k) {
    const size_t shares = (size_t)k * (size_t)layout->nodes;
    int *next = new_ints(shares); /* next index in order, per share */
    lanes->k = k;
    lanes->order = new_ints((size_t)layout->size);
    lanes->lane_size = new_ints((size_t)k);
    lanes->share_size = new_ints(shares);
    lanes->share_begin = new_ints(shares);
    if (next == NULL || lanes->order == NULL || lanes->lane_size == NULL ||
        lanes->share_size == NULL || lanes->share_begin == NULL) {
        free(next);
        return false;
    }
    for (int rank = 0; rank < layout->size; rank++) {
        const int lane = layout->node_rank_of[rank] % k;
        lanes->lane_size[lane]++;
        lanes->share_size[lane * layout->nodes + layout->node_of[rank]]++;
    }
    for (size_t share = 1; share < shares; share++) {
        next[share] = next[share - 1] + lanes->share_size[share - 1];
    }
    memcpy(lanes->share_begin, next, shares * sizeof *next);
    lanes->identity = true;
    for (int rank = 0; rank < layout->size; rank++) {
        const int lane = layout->node_rank_of[rank] % k;
        const int at = next[lane * layout->nodes + layout->node_of[rank]]++;
        lanes->order[at] = rank;
        lanes->identity = lanes->identity && at == rank;
    }
    free(next);
    return true;
}

static void free_lanes(struct cf_lanes *lanes) {
    free(lanes->order);
    free(lanes->lane_size);
    free(lanes->share_size);
    free(lanes->share_begin);
    memset(lanes, 0, sizeof *lanes);
}

static const struct cf_lanes *add_fewer(struct cf_layout *layout, int k) {
    struct cf_lanes *lanes = calloc(1, sizeof *lanes);

    if (lanes == NULL) {
        return NULL;
    }
    if (!build_lanes(lanes, layout, k)) {
        free_lanes(lanes);
        free(lanes);
        return NULL;
    }
    lanes->next = layout->fewer;
    return layout->fewer = lanes;
}

const struct cf_lanes *cf_lanes_of(struct cf_layout *layout, int most) {
    if (most == 0 || most >= layout->min_node_size) {
        return &layout->full;
    }
    if (most == 1) {
        return &layout->single;
    }
    for (const struct cf_lanes *lanes = layout->fewer; lanes != NULL; lanes = lanes->next) {
        if (lanes->k == most) {
            return lanes;
        }
    }
    return add_fewer(layout, most);
}

bool cf_layout_add_lanes(struct cf_layout *layout) {
    if (build_lanes(&layout->full, layout, layout->min_node_size) &&
        build_lanes(&layout->single, layout, 1)) {
        return true;
    }
    free_lanes(&layout->full);
    free_lanes(&layout->single);
    return false;
}

void cf_layout_free_copy(struct cf_layout *layout) {
    while (layout->fewer != NULL) {
        struct cf_lanes *lanes = layout->fewer;
        layout->fewer = lanes->next;
        free_lanes(lanes);
        free(lanes);
    }
}

void cf_layout_free(struct cf_layout *layout) {
    free(layout->node_of);
    layout->node_of = layout->node_rank_of = layout->node_size = NULL;
    free_lanes(&layout->full);
    free_lanes(&layout->single);
    cf_layout_free_copy(layout);
}

static bool is_cyclic(const struct cf_layout *layout) {
    for (int rank = 0; rank < layout->size; rank++) {
        if (layout->node_of[rank] != rank % layout->nodes) {
            return false;
        }
    }
    return true;
}

/* Joins the values with the separator; false if they do not fit. */
static bool join(const int *values, int count, char separator, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < count && used < size; i++) {
        const char before[] = {i == 0 ? '\0' : separator, '\0'};
        used += (size_t)snprintf(text + used, size - used, "%s%d", before, values[i]);
    }
    return used < size;
}

/* 64-bit FNV-1a of the text that would follow "map:". Not by snprintf, which takes 10 ms for 100
 * 000 numbers. */
static uint64_t placement_hash(const int *node_of, int size) {
    uint64_t hash = CF_HASH_BEGIN;
    for (int rank = 0; rank < size; rank++) {
        char digits[16];
        size_t begin = sizeof digits;
        for (int rest = node_of[rank]; begin == sizeof digits || rest > 0; rest /= 10) {
            digits[--begin] = (char)('0' + rest % 10);
        }
        if (rank > 0) {
            digits[--begin] = '.';
        }
        hash = cf_hash(hash, digits + begin, sizeof digits - begin);
    }
    return hash;
}

/* What was seen of a node's ranks so far. */
struct seen {
    int last;
    uint64_t sockets;
    bool same; /* a rank was on the socket of the one before */
    bool back; /* a rank was on a socket that others had left */
};

static enum cf_sockets sockets_of(const struct seen *nodes, const struct cf_layout *layout) {
    bool packed = true;
    bool cyclic = true;

    for (int node = 0; node < layout->nodes; node++) {
        if (layout->node_size[node] > 1) {
            packed = packed && nodes[node].same && !nodes[node].back;
            cyclic = cyclic && !nodes[node].same;
        }
    }
    if (layout->max_node_size == 1 || packed == cyclic) {
        return CF_SOCKETS_ANY;
    }
    return packed ? CF_SOCKETS_PACKED : CF_SOCKETS_CYCLIC;
}

bool cf_layout_add_sockets(struct cf_layout *layout, const int *socket_of) {
    enum { MOST_SOCKETS = 64 };
    struct seen *nodes = calloc((size_t)layout->nodes, sizeof *nodes);
    bool bound = true;

    if (nodes == NULL) {
        return false;
    }
    for (int rank = 0; rank < layout->size && bound; rank++) {
        struct seen *node = &nodes[layout->node_of[rank]];
        const int socket = socket_of[rank];
        bound = socket >= 0 && socket < MOST_SOCKETS;
        if (bound && node->sockets != 0) {
            node->same = node->same || socket == node->last;
            node->back = node->back || (socket != node->last && (node->sockets >> socket & 1) != 0);
        }
        node->last = socket;
        node->sockets |= bound ? UINT64_C(1) << socket : 0;
    }
    layout->sockets = bound ? sockets_of(nodes, layout) : CF_SOCKETS_ANY;
    free(nodes);
    return true;
}

const char *cf_sockets_suffix(enum cf_sockets sockets) {
    static const char *const suffixes[] = {"", "-packed", "-cyclic"};

    return suffixes[sockets];
}

void cf_layout_placement(const struct cf_layout *layout, char *name, size_t size) {
    enum { SPELLED_RANKS = 64 };
    char list[CF_LAYOUT_NAME_SIZE - sizeof "map:x2147483647-packed"];
    const bool even = layout->min_node_size == layout->max_node_size;

    if (layout->consecutive && even) {
        (void)snprintf(name, size, "%dx%d", layout->nodes, layout->min_node_size);
    } else if (even && is_cyclic(layout)) {
        (void)snprintf(name, size, "cyclic:%dx%d", layout->nodes, layout->min_node_size);
    } else if (layout->consecutive &&
               join(layout->node_size, layout->nodes, '+', list, sizeof list)) {
        (void)snprintf(name, size, "%s", list);
    } else if (layout->size <= SPELLED_RANKS &&
               join(layout->node_of, layout->size, '.', list, sizeof list)) {
        (void)snprintf(name, size, "map:%s", list);
    } else {
        (void)snprintf(name, size, "map#%016" PRIx64,
                       placement_hash(layout->node_of, layout->size));
    }
}

void cf_layout_name(const struct cf_layout *layout, char *name, size_t size) {
    char threads[16] = "";

    cf_layout_placement(layout, name, size);
    if (layout->threads > 1) {
        (void)snprintf(threads, sizeof threads, "x%d", layout->threads);
    }
    const size_t used = strlen(name);
    (void)snprintf(name + used, size - used, "%s%s", threads, cf_sockets_suffix(layout->sockets));
}
