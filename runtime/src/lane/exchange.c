/*
 * The pairwise all-to-all, in segments. In step s a rank sends to the s-th member after it and
 * receives from the s-th before it, so that no rank receives from two at once. The first segments
 * of all blocks are sent first, step by step, then the second ones, and so on. All members are thus
 * served at the same time, and a late rank delays others by a segment, not by a block.
 *
 * With 3 members, 2 segments per block and a pipeline window of 3, member 0 has under way, each
 * way:
 *
 *   to 1, from 2: segment 0    to 2, from 1: segment 0    to 1, from 2: segment 1
 *
 * It starts the next one, to 2 and from 1, when the first has completed. Both sides of a message
 * give it the same place in this order, by segment and step, and wait only for messages before it.
 * So ranks cannot wait in a circle (no deadlock).
 */
#include <stdlib.h>

#include "lane/lane.h"

struct exchange {
    const struct cf_exchange *of;
    int me; /* index in the order of the members */
    int window;
    MPI_Request receive[CF_MAX_WINDOW];
    MPI_Request send[CF_MAX_WINDOW];
};

static int member(const struct cf_exchange *of, int position) {
    return of->order == NULL ? position % of->n : of->order[position % of->n];
}

static int own_position(const struct cf_exchange *of) {
    int position = 0;

    while (member(of, position) != of->me) {
        position++;
    }
    return position;
}

static int target_of(const struct exchange *exchange, int step) {
    return member(exchange->of, exchange->me + step);
}

static int source_of(const struct exchange *exchange, int step) {
    return member(exchange->of, exchange->me + exchange->of->n - step);
}

/* Whether a step has more than so many segments, either way. */
static bool has_more(const struct exchange *exchange, int segments, int step) {
    const struct cf_exchange *of = exchange->of;
    const MPI_Aint units = (MPI_Aint)segments * of->segment;

    return units < of->send->counts[target_of(exchange, step)] ||
           units < of->receive->counts[source_of(exchange, step)];
}

/* Starts the exchange of one segment in one step, with the requests of this slot. */
static int start(struct exchange *exchange, int segment, int step, int slot) {
    const struct cf_exchange *of = exchange->of;
    const int target = target_of(exchange, step);
    const int source = source_of(exchange, step);
    const MPI_Aint first = (MPI_Aint)segment * of->segment;

    CF_TRY(cf_wait(&exchange->receive[slot]));
    if (first < of->receive->counts[source]) {
        CF_TRY(PMPI_Irecv(cf_at(of->unit, of->to, of->receive->displs[source] + first),
                          cf_segment_count(segment, of->segment, of->receive->counts[source]),
                          of->unit->type, source, 0, of->over, &exchange->receive[slot]));
    }
    CF_TRY(cf_wait(&exchange->send[slot]));
    if (first < of->send->counts[target]) {
        CF_TRY(PMPI_Isend(cf_at(of->unit, of->from, of->send->displs[target] + first),
                          cf_segment_count(segment, of->segment, of->send->counts[target]),
                          of->unit->type, target, 0, of->over, &exchange->send[slot]));
    }
    return MPI_SUCCESS;
}

/* steps: room for those that are left, so that a single long block does not walk all others. */
static int start_all(struct exchange *exchange, int *steps) {
    const struct cf_exchange *of = exchange->of;
    int left = 0;
    int slot = 0;

    for (int step = 1; step < of->n; step++) {
        steps[left++] = step;
    }
    for (int segment = 0; left > 0; segment++) {
        int more = 0;
        for (int i = 0; i < left; i++) {
            const int step = steps[i];
            CF_TRY(start(exchange, segment, step, slot));
            slot = slot + 1 == exchange->window ? 0 : slot + 1;
            if (has_more(exchange, segment + 1, step)) {
                steps[more++] = step;
            }
        }
        left = more;
    }
    return cf_copy(of->comm, cf_at(of->unit, of->to, of->receive->displs[of->me]),
                   cf_at(of->unit, of->from, of->send->displs[of->me]), of->send->counts[of->me],
                   of->unit);
}

int cf_exchange_run(const struct cf_exchange *of) {
    struct exchange exchange = {.of = of, .me = own_position(of), .window = cf_window(of->window)};
    int *steps = malloc((size_t)of->n * sizeof *steps);

    CF_TRY_MEMORY(steps);
    cf_requests_clear(exchange.receive, exchange.window);
    cf_requests_clear(exchange.send, exchange.window);
    const int err = cf_requests_end(exchange.receive, exchange.send, exchange.window,
                                    start_all(&exchange, steps));
    free(steps);
    return err;
}
