/*
 * Segments on the circulant graph of a lane (specs/algorithms/circulant_blocks.toml). The schedule
 * (lane/circulant.h) is for endless data. Of n segments, the first phase begins with so many rounds
 * already over that the last segment is new in the last round of a phase; segment n - 1 stands for
 * all later ones.
 */
#include <string.h>

#include "lane/circulant.h"
#include "lane/lane.h"
#include "lane_algorithms.h"

/* A segment is received while the round before it is under way. */
enum { UNDER_WAY = 2 };

struct blocks {
    const struct cf_lane_call *call;
    struct cf_circle circle;
    int position; /* from the root */
    int root;
    int segment; /* units */
    int n;       /* segments */
    int skipped; /* rounds of the first phase */
    int rounds;  /* with the skipped ones */
    /* By round of a phase: the segments that this rank gets, and those that its targets get. */
    int got[CF_CIRCLE_ROUNDS];
    int sent[CF_CIRCLE_ROUNDS][CF_CIRCLE_ROUNDS];
    MPI_Request receive[UNDER_WAY];
    MPI_Request send[UNDER_WAY];
};

static void begin(struct blocks *blocks, const struct cf_lane_call *call, int root) {
    const struct cf_over *at = &call->over;
    struct cf_circle *circle = &blocks->circle;

    cf_circle_of(circle, at->size);
    blocks->call = call;
    blocks->root = root;
    blocks->position = cf_position(at, root);
    blocks->segment =
        cf_segment_units(call->parameter[CF_CIRCULANT_BLOCKS_SEGMENT_BYTES], call->unit);
    blocks->n = cf_segments(call->count, blocks->segment);
    blocks->skipped = (circle->rounds - (blocks->n - 1) % circle->rounds) % circle->rounds;
    blocks->rounds = blocks->skipped + blocks->n - 1 + circle->rounds;
    cf_circle_blocks(circle, blocks->position, blocks->got);
    for (int k = 0; k < circle->rounds; k++) {
        cf_circle_blocks(circle, (blocks->position + circle->skip[k]) % circle->n, blocks->sent[k]);
    }
    cf_requests_clear(blocks->receive, UNDER_WAY);
    cf_requests_clear(blocks->send, UNDER_WAY);
}

static int block_in(const struct blocks *blocks, const int *schedule, int round) {
    const int k = round % blocks->circle.rounds;
    return schedule[k] + round - k - blocks->skipped;
}

/* The segment that a position with this schedule gets in a round; -1: none, or one that it has. It
 * has the last one if it got that or a later one in the phase up to this round. */
static int segment_in(const struct blocks *blocks, const int *schedule, int round) {
    const int block = block_in(blocks, schedule, round);

    if (block < blocks->n - 1) {
        return block < 0 ? -1 : block;
    }
    for (int i = 1; i <= blocks->circle.rounds && round - i >= blocks->skipped; i++) {
        if (block_in(blocks, schedule, round - i) >= blocks->n - 1) {
            return -1;
        }
    }
    return blocks->n - 1;
}

/* What this rank receives in a broadcast's round, and what it sends. */
static int arriving(const struct blocks *blocks, int round) {
    return blocks->position == 0 ? -1 : segment_in(blocks, blocks->got, round);
}

static int leaving(const struct blocks *blocks, int round) {
    const int k = round % blocks->circle.rounds;
    const bool to_root = (blocks->position + blocks->circle.skip[k]) % blocks->circle.n == 0;
    return to_root ? -1 : segment_in(blocks, blocks->sent[k], round);
}

/* The rank that sends to this one in a broadcast's round, and the one that this one sends to. */
static int source_in(const struct blocks *blocks, int round) {
    const struct cf_circle *circle = &blocks->circle;
    const int before = circle->n - circle->skip[round % circle->rounds];
    return cf_rank_at(&blocks->call->over, blocks->root, blocks->position + before);
}

static int target_in(const struct blocks *blocks, int round) {
    return cf_rank_at(&blocks->call->over, blocks->root,
                      blocks->position + blocks->circle.skip[round % blocks->circle.rounds]);
}

static void *segment_at(const struct blocks *blocks, const void *buffer, int segment) {
    return cf_at(blocks->call->unit, buffer, (MPI_Aint)segment * blocks->segment);
}

static int units_of(const struct blocks *blocks, int segment) {
    return cf_segment_count(segment, blocks->segment, blocks->call->count);
}

/* Begin to receive a segment, and to send one; the one two messages before has completed. */
static int receive_segment(struct blocks *blocks, int round, int segment, void *to, int source) {
    return PMPI_Irecv(to, units_of(blocks, segment), blocks->call->unit->type, source, 0,
                      blocks->call->over.comm, &blocks->receive[round % UNDER_WAY]);
}

static int send_segment(struct blocks *blocks, int round, int segment, const void *from,
                        int target) {
    MPI_Request *request = &blocks->send[round % UNDER_WAY];

    CF_TRY(cf_wait(request));
    return PMPI_Isend(from, units_of(blocks, segment), blocks->call->unit->type, target, 0,
                      blocks->call->over.comm, request);
}

static int ask_for(struct blocks *blocks, int round) {
    const int segment = round < blocks->rounds ? arriving(blocks, round) : -1;
    return segment < 0 ? MPI_SUCCESS
                       : receive_segment(blocks, round, segment,
                                         segment_at(blocks, blocks->call->to, segment),
                                         source_in(blocks, round));
}

static int broadcast(struct blocks *blocks) {
    CF_TRY(ask_for(blocks, blocks->skipped));
    for (int round = blocks->skipped; round < blocks->rounds; round++) {
        const int segment = leaving(blocks, round);
        CF_TRY(ask_for(blocks, round + 1));
        if (segment >= 0) {
            CF_TRY(send_segment(blocks, round, segment,
                                segment_at(blocks, blocks->call->to, segment),
                                target_in(blocks, round)));
        }
        CF_TRY(cf_wait(&blocks->receive[round % UNDER_WAY]));
    }
    return MPI_SUCCESS;
}

/* With 5 nodes, root 0 and segments s0 and s1, after two rounds that are left out: 0 -> 3 s0; 0 ->
 * 1 s1, 3 -> 4 s0; 0 -> 2 s1, 4 -> 1 s0; 0 -> 3 s1, 4 -> 2 s0, 1 -> 4 s1. */
int cf_circulant_blocks_bcast(const struct cf_lane_call *call) {
    struct blocks blocks;

    if (call->count == 0) {
        return MPI_SUCCESS;
    }
    begin(&blocks, call, call->root);
    return cf_requests_end(blocks.receive, blocks.send, UNDER_WAY, broadcast(&blocks));
}

/*
 * A broadcast back in time: what a rank got there it sends here, after the sums that it sent there
 * have come in. Each rank sends each segment once, so each operand is combined once. A sum comes
 * into `sums`, if it is a segment's first, or into a buffer.
 */
struct reduction {
    struct blocks blocks;
    char *sums;     /* for whole vectors; of the root, the result */
    char *buffers;  /* for UNDER_WAY segments */
    MPI_Aint apart; /* bytes */
    char *begun;    /* [segments] whether there is a sum, or one is coming */
    void *coming[UNDER_WAY];
};

/* Elements may be longer than their extent, so `sums` is a buffer of its own. */
static int make_room(struct reduction *reduction) {
    const struct blocks *blocks = &reduction->blocks;
    const struct cf_lane_call *call = blocks->call;
    const int units = cf_segment_count(0, blocks->segment, call->count);

    reduction->begun = cf_tmpbuf(&call->comm->tmpbufs, CF_SLOT_PARTS, (size_t)blocks->n);
    reduction->buffers =
        cf_temps(call->comm, CF_SLOT_LANE, UNDER_WAY, units, call->unit, &reduction->apart);
    if (blocks->position > 0) {
        reduction->sums = cf_temp(call->comm, CF_SLOT_RESULT, call->count, call->unit);
    }
    if (reduction->begun == NULL || reduction->buffers == NULL || reduction->sums == NULL) {
        return MPI_ERR_NO_MEM;
    }
    memset(reduction->begun, 0, (size_t)blocks->n);
    return MPI_SUCCESS;
}

static int await_sum(struct reduction *reduction, int round) {
    struct blocks *blocks = &reduction->blocks;
    const int segment = round >= blocks->skipped ? leaving(blocks, round) : -1;
    void **to = &reduction->coming[round % UNDER_WAY];

    if (segment < 0) {
        return MPI_SUCCESS;
    }
    *to = reduction->begun[segment] ? reduction->buffers + round % UNDER_WAY * reduction->apart
                                    : segment_at(blocks, reduction->sums, segment);
    reduction->begun[segment] = 1;
    return receive_segment(blocks, round, segment, *to, target_in(blocks, round));
}

/* The first sum is combined with this rank's operand, later ones with the sum of those. */
static int add_sum(struct reduction *reduction, int round) {
    struct blocks *blocks = &reduction->blocks;
    const struct cf_lane_call *call = blocks->call;
    const int segment = leaving(blocks, round);
    const void *coming = reduction->coming[round % UNDER_WAY];

    if (segment < 0) {
        return MPI_SUCCESS;
    }
    CF_TRY(cf_wait(&blocks->receive[round % UNDER_WAY]));
    void *sum = segment_at(blocks, reduction->sums, segment);
    return cf_combine(call->comm, coming == sum ? segment_at(blocks, call->from, segment) : coming,
                      sum, units_of(blocks, segment), call->unit, call->op);
}

static int reduce(struct reduction *reduction) {
    struct blocks *blocks = &reduction->blocks;
    const struct cf_lane_call *call = blocks->call;

    CF_TRY(await_sum(reduction, blocks->rounds - 1));
    for (int round = blocks->rounds - 1; round >= blocks->skipped; round--) {
        const int segment = arriving(blocks, round);
        CF_TRY(await_sum(reduction, round - 1));
        if (segment >= 0) {
            const void *own = reduction->begun[segment] ? reduction->sums : call->from;
            CF_TRY(send_segment(blocks, round, segment, segment_at(blocks, own, segment),
                                source_in(blocks, round)));
        }
        CF_TRY(add_sum(reduction, round));
    }
    return MPI_SUCCESS;
}

/* The operands of a segment are not combined in rank order, so non-commutative ops use the MPI
 * library. */
int cf_circulant_blocks_reduce(const struct cf_lane_call *call) {
    struct reduction reduction = {.sums = call->to};
    struct blocks *blocks = &reduction.blocks;

    if (call->count == 0) {
        return MPI_SUCCESS;
    }
    if (!call->commutes) {
        return cf_native_reduce(call);
    }
    begin(blocks, call, call->root);
    CF_TRY(make_room(&reduction));
    return cf_requests_end(blocks->receive, blocks->send, UNDER_WAY, reduce(&reduction));
}
