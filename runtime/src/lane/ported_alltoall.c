/*
 * The all-to-all of ported.h, for blocks of few bytes.
 *
 * Slot d of a node holds what travels d nodes in all: the blocks of all ranks of one node for all
 * ranks of another, by source. It travels by the digits of d to base ports + 1. In each round the
 * ranks of a node hand the slots whose digit is m + 1 to rank m, which sends them digit x far nodes
 * on. At the end the ranks of the node distribute what came. With 6 nodes of 2 ranks, slot 5 (12 to
 * base 3) goes 2 nodes on with rank 1, then 3 nodes with rank 0.
 *
 * Before its first round a slot is spread over its node: each rank has its own row. Afterwards the
 * rank that moved it last has it.
 */
#include <string.h>

#include "data/component.h"
#include "lane/ported.h"
#include "node/shared.h"

struct exchange {
    const struct cf_ported *of;
    const struct cf_layout *at;
    const char *from;
    char *to;
    int block;
    int base;
    MPI_Aint room; /* of a slot */
    char *slots;
    char *leaving; /* both have room for all slots */
    char *coming;
    struct cf_split send; /* among the ranks of the node */
    struct cf_split receive;
};

/* Where a slot comes from and goes to, and its number of blocks, before the round `far`. */
struct slot {
    char *data;
    int source, target;
    int rows, columns;
    int bytes;
    int holder; /* node rank; -1: spread */
};

static struct slot slot_of(const struct exchange *x, int d, int far) {
    const struct cf_layout *at = x->at;
    const int behind = d % far;
    const int source = (at->node - behind + at->nodes) % at->nodes;
    const int target = (source + d) % at->nodes;
    const int rows = at->node_size[source];
    const int columns = at->node_size[target];
    int highest = behind;

    while (highest >= x->base) {
        highest /= x->base;
    }
    return (struct slot){x->slots + x->room * d,    source,     target, rows, columns,
                         rows * columns * x->block, highest - 1};
}

static char *block_at(const struct exchange *x, const char *blocks, int node, int index) {
    return (char *)blocks + (MPI_Aint)(x->at->single.share_begin[node] + index) * x->block;
}

static int digit(const struct exchange *x, int d, int far) {
    return d / far % x->base;
}

static void put(char **place, const char *from, int bytes) {
    memcpy(*place, from, (size_t)bytes);
    *place += bytes;
}

static void take(const char **place, char *to, int bytes) {
    memcpy(to, *place, (size_t)bytes);
    *place += bytes;
}

static int splits_begin(struct exchange *x) {
    const int n = x->at->node_size[x->at->node];

    CF_TRY(cf_split_even(&x->send, x->of->comm, CF_SLOT_PARTS, n, 0));
    return cf_split_even(&x->receive, x->of->comm, CF_SLOT_POSITIONS, n, 0);
}

/* Exchanges leaving and coming on the node. */
static int on_node(struct exchange *x) {
    const struct cf_ported *of = x->of;

    cf_split_end(&x->send);
    cf_split_end(&x->receive);
    return of->shared ? cf_shared_alltoall(of->comm, x->leaving, &x->send, x->coming, &x->receive,
                                           of->unit, false)
                      : cf_alltoall(of->comm, x->leaving, &x->send, x->coming, &x->receive,
                                    of->unit, false, x->at->node_comm);
}

/* Hands each slot that travels in this round to the rank that moves it. */
static int collect(struct exchange *x, int far) {
    const int me = x->at->node_rank;
    char *leaving = x->leaving;

    CF_TRY(splits_begin(x));
    for (int m = 0; m < x->of->ports; m++) {
        for (int d = 1; d < x->at->nodes; d++) {
            const struct slot slot = slot_of(x, d, far);
            const int row = slot.columns * x->block;
            if (digit(x, d, far) != m + 1) {
                continue;
            }
            if (slot.holder < 0) {
                put(&leaving, block_at(x, x->from, slot.target, 0), row);
                x->send.counts[m] += row;
            } else if (slot.holder == me) {
                put(&leaving, slot.data, slot.bytes);
                x->send.counts[m] += slot.bytes;
            }
            for (int q = 0; m == me && q < x->receive.n; q++) {
                x->receive.counts[q] += slot.holder < 0 ? row : slot.holder == q ? slot.bytes : 0;
            }
        }
    }
    CF_TRY(on_node(x));
    const char *coming = x->coming;
    for (int q = 0; me < x->of->ports && q < x->receive.n; q++) {
        for (int d = 1; d < x->at->nodes; d++) {
            const struct slot slot = slot_of(x, d, far);
            const int row = slot.columns * x->block;
            if (digit(x, d, far) == me + 1 && slot.holder < 0) {
                take(&coming, slot.data + (MPI_Aint)q * row, row);
            } else if (digit(x, d, far) == me + 1 && slot.holder == q) {
                take(&coming, slot.data, slot.bytes);
            }
        }
    }
    return MPI_SUCCESS;
}

/* Sends this rank's slots of the round to another node, and receives others in their place. */
static int travel(struct exchange *x, int far) {
    const struct cf_layout *at = x->at;
    const int mine = at->node_rank + 1;
    const MPI_Aint way = (MPI_Aint)mine * far;
    char *leaving = x->leaving;
    int arriving = 0;

    if (mine > x->of->ports || way >= at->nodes) {
        return MPI_SUCCESS;
    }
    for (int d = 1; d < at->nodes; d++) {
        if (digit(x, d, far) == mine) {
            const struct slot slot = slot_of(x, d, far);
            put(&leaving, slot.data, slot.bytes);
            arriving += slot_of(x, d, far * x->base).bytes;
        }
    }
    const struct cf_message out = {x->leaving, (int)(leaving - x->leaving),
                                   (at->node + (int)way) % at->nodes};
    const struct cf_message in = {x->coming, arriving,
                                  (at->node - (int)way + at->nodes) % at->nodes};
    struct cf_batch batch = {.n = 0};
    const int err = cf_batch_add(&batch, out, in, x->of->unit, at->lane_comm);
    CF_TRY(cf_batch_end(&batch, err));
    const char *coming = x->coming;
    for (int d = 1; d < at->nodes; d++) {
        if (digit(x, d, far) == mine) {
            const struct slot slot = slot_of(x, d, far * x->base);
            take(&coming, slot.data, slot.bytes);
        }
    }
    return MPI_SUCCESS;
}

/* Each rank hands the others of the node their columns of the slots that it holds, and their block
 * of its own. far is beyond the last round. */
static int deliver(struct exchange *x, int far) {
    const struct cf_layout *at = x->at;
    const int me = at->node_rank;
    char *leaving = x->leaving;

    CF_TRY(splits_begin(x));
    for (int q = 0; q < x->send.n; q++) {
        x->receive.counts[q] += x->block;
        put(&leaving, block_at(x, x->from, at->node, q), x->block);
        for (int d = 1; d < at->nodes; d++) {
            const struct slot slot = slot_of(x, d, far);
            x->receive.counts[q] += slot.holder == q ? slot.rows * x->block : 0;
            for (int row = 0; slot.holder == me && row < slot.rows; row++) {
                put(&leaving, slot.data + ((MPI_Aint)row * slot.columns + q) * x->block, x->block);
            }
        }
        x->send.counts[q] = (int)(leaving - x->leaving) - x->send.total;
        x->send.total += x->send.counts[q];
    }
    CF_TRY(on_node(x));
    const char *coming = x->coming;
    for (int q = 0; q < x->receive.n; q++) {
        take(&coming, block_at(x, x->to, at->node, q), x->block);
        for (int d = 1; d < at->nodes; d++) {
            const struct slot slot = slot_of(x, d, far);
            if (slot.holder == q) {
                take(&coming, block_at(x, x->to, slot.source, 0), slot.rows * x->block);
            }
        }
    }
    return MPI_SUCCESS;
}

int cf_ported_alltoall(const struct cf_ported *of, const void *from, void *to, int block) {
    const struct cf_layout *at = &of->comm->layout;
    const MPI_Aint room = (MPI_Aint)at->max_node_size * at->max_node_size * block;
    char *memory = cf_temp(of->comm, CF_SLOT_LANE, 3 * room * at->nodes, of->unit);
    int far = 1;

    CF_TRY_MEMORY(memory);
    struct exchange x = {.of = of,
                         .at = at,
                         .from = from,
                         .to = to,
                         .block = block,
                         .base = of->ports + 1,
                         .room = room,
                         .slots = memory,
                         .leaving = memory + room * at->nodes,
                         .coming = memory + 2 * room * at->nodes};
    for (; far < at->nodes; far *= x.base) {
        CF_TRY(collect(&x, far));
        CF_TRY(travel(&x, far));
    }
    return deliver(&x, far);
}
