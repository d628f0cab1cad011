/* A call as all ranks describe it, and the blocks that it means on this one. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

/* Where a block has no elements its displacement means nothing. */
enum { WILD_DISPLACEMENT = 1 << 28 };

static const char *const spreads[] = {"even", "ragged", "single"};
static const char *const placements[] = {"packed", "gaps", "reversed", "negative"};
static const char *const garbages[] = {"sane", "null", "wild"};

static bool has_counts(const struct collective *collective) {
    return collective->varies != VARIES_NO;
}

static bool has_displs(const struct collective *collective) {
    return collective->send_displs || collective->recv_displs;
}

void call_describe(const struct call *call, char *text, size_t size) {
    const struct collective *collective = call->collective;
    char root[32] = "";
    if (collective->rooted)
        (void)snprintf(root, sizeof root, ",root=%d", call->root);
    (void)snprintf(
        text, size, "%s@%s,ranks=%d,count=%d,type=%s%s%s%s%s%s%s%s%s,garbage=%s%s,seed=%u",
        collective->name, call->place->name, call->place->size, call->count, call->shape->name,
        call->op == NULL ? "" : ",op=", call->op == NULL ? "" : call->op->name, root,
        call->in_place ? ",in_place" : "", has_counts(collective) ? ",spread=" : "",
        has_counts(collective) ? spreads[call->spread] : "",
        has_displs(collective) ? ",placed=" : "",
        has_displs(collective) ? placements[call->placement] : "", garbages[call->garbage],
        call->strict ? ",strict" : "", call->seed);
}

bool call_is_in_place(const struct call *call) {
    const enum in_place in_place = call->collective->in_place;
    return call->in_place && in_place != IN_PLACE_NONE &&
           (in_place == IN_PLACE_SEND_ALL || call->place->rank == call->root);
}

int call_block(const struct call *call, int source, int target) {
    const unsigned size = (unsigned)call->place->size;
    /* Where alltoallv is in place, two ranks exchange as much as they get. */
    const bool symmetric = call->in_place && call->collective->varies == VARIES_PAIR;
    unsigned from = (unsigned)source;
    unsigned to = (unsigned)target;

    if (call->collective->varies == VARIES_NO || call->spread == SPREAD_EVEN)
        return call->count;
    if (call->collective->varies == VARIES_SOURCE)
        to = 0;
    if (call->collective->varies == VARIES_TARGET)
        from = 0;
    if (symmetric && from > to) {
        const unsigned lower = to;
        to = from;
        from = lower;
    }
    const unsigned key = from + size * to;
    const uint64_t random = mix(mix(call->seed) + key);
    if (call->spread == SPREAD_RAGGED)
        return random % 4 == 0 ? 0 : (int)(random / 4 % ((unsigned)call->count + 1));
    /* A single block has elements: that of rank 1 to the last, or what is left of that. */
    const unsigned chosen_from = call->collective->varies == VARIES_TARGET ? 0 : 1 % size;
    const unsigned chosen_to = call->collective->varies == VARIES_SOURCE ? 0 : size - 1;
    return from == chosen_from && to == chosen_to ? call->count : 0;
}

static void side_reserve(struct side *side, int blocks) {
    side->blocks = blocks;
    if (blocks <= side->capacity)
        return;
    free(side->counts);
    free(side->positions);
    free(side->displs);
    side->counts = xmalloc((size_t)blocks * sizeof *side->counts);
    side->positions = xmalloc((size_t)blocks * sizeof *side->positions);
    side->displs = xmalloc((size_t)blocks * sizeof *side->displs);
    side->capacity = blocks;
}

static const struct type *type_of_side(const struct call *call, bool sends) {
    const struct collective *collective = call->collective;
    const struct shape *shape = call->shape;
    const unsigned rank = (unsigned)call->place->rank;
    if (collective->reduces)
        return shape->types[0];
    /* Where what is sent makes room for what is received, both have one type map. */
    if (call->in_place && collective->in_place == IN_PLACE_SEND_ALL)
        return shape->types[call->seed % (unsigned)shape->ntypes];
    return shape->types[(call->seed + 2 * rank + sends) % (unsigned)shape->ntypes];
}

/* Elements of the side's type that make this many of the shape's largest. */
static int elements_of(const struct call *call, const struct side *side, int count) {
    return side->type->words == 0 ? count : count * (call->shape->words / side->type->words);
}

/* Without displacements blocks stand one behind the other. */
static void place_blocks(const struct call *call, struct side *side, bool displs) {
    const enum placement placement = displs ? call->placement : PLACED_PACKED;
    const int gap = placement == PLACED_PACKED ? 0 : 1 + (int)(call->seed % 3);
    const bool reversed = placement == PLACED_REVERSED || placement == PLACED_NEGATIVE;
    int next = gap;

    for (int i = 0; i < side->blocks; i++) {
        const int b = reversed ? side->blocks - 1 - i : i;
        side->positions[b] = next;
        next += side->counts[b] + gap;
    }
    side->elements = next;
    side->origin = placement == PLACED_NEGATIVE ? next : 0;
    for (int b = 0; b < side->blocks; b++) {
        const bool wild = side->counts[b] == 0 && placement != PLACED_PACKED;
        side->displs[b] = wild ? WILD_DISPLACEMENT : side->positions[b] - side->origin;
    }
}

/* Decided alike on all ranks: room for a block of every rank, and gaps. */
static bool fits(const struct call *call) {
    const int most = call->shape->types[0]->most;
    return most == 0 || (call->count + 3) * (call->place->size + 1) <= most;
}

bool call_lay_out(const struct call *call, struct side *send, struct side *recv) {
    const struct collective *collective = call->collective;
    const struct place *place = call->place;
    const bool in_place = call_is_in_place(call);
    const bool no_result = in_place && collective->in_place == IN_PLACE_RECV_ROOT;
    const bool nothing = collective->moves_nothing;
    const int inputs = nothing ? 0 : collective->in_blocks(place->rank, call->root, place->size);
    const int results = nothing ? 0 : collective->out_blocks(place->rank, call->root, place->size);
    /* The input stands in the receive buffer. */
    const bool shared = collective->single_buffer || (in_place && !no_result);

    recv->type = type_of_side(call, false);
    send->type = shared ? recv->type : type_of_side(call, true);
    side_reserve(recv, no_result ? 0 : results);
    for (int b = 0; b < recv->blocks; b++) {
        const int source = collective->first(place->rank, b, call->root, place->size);
        recv->counts[b] = elements_of(call, recv, call_block(call, source, place->rank));
    }
    place_blocks(call, recv, collective->recv_displs);
    side_reserve(send, inputs);
    for (int b = 0; b < send->blocks; b++)
        send->counts[b] = elements_of(call, send, call_block(call, place->rank, b));
    place_blocks(call, send, collective->send_displs);
    if (shared) {
        const int at =
            in_place ? collective->in_place_block(place->rank, call->root, place->size) : 0;
        for (int b = 0; b < send->blocks && at + send->blocks <= recv->blocks; b++)
            send->positions[b] = recv->positions[at + b];
        if (recv->elements < send->elements)
            recv->elements = send->elements;
        send->elements = 0;
    }
    return fits(call);
}
