/*
 * The pipelined ring of a lane: allgather, reduce-scatter and allreduce as one stream of parts that
 * every rank passes on.
 *
 * In a rank's stream, part 0 is its own, and part t the one received in step t. The rank sends
 * parts 0 to steps - 1 to the next rank. It receives parts 1 to steps from the rank before, which
 * has the same stream one part earlier. The first `reduced` parts received are partial sums: a rank
 * adds its operand before it sends them on. Example: an allreduce on 3 ranks, at rank 0 (reduced =
 * 2, steps = 4):
 *
 *   t   part  is             where
 *   0   2     x0             from
 *   1   1     x0 o x2        temporary
 *   2   0     the sum        to
 *   3   2     the sum        to
 *   4   1     the sum        to
 *
 * Parts are cut into segments, which are passed on singly. A rank sends segment i of the stream
 * while segment i + (segments of a part) arrives. At most `window` segments are under way in either
 * direction. A rank waits only for segments that the rank before sent at least one segment earlier,
 * so ranks cannot wait in a circle (no deadlock).
 */
#include "lane/lane.h"

/* A position in a rank's stream: segment `segment` of part t. */
struct place {
    int t;
    int segment;
};

struct stream {
    const struct cf_ring *ring;
    const struct cf_lane_call *call;
    int segment; /* units */
    int window;
    int lead;  /* segments of part 0: how far receiving is ahead of sending */
    int slots; /* segments that `partial` holds */
    char *partial;
    MPI_Aint apart; /* bytes from one slot to the next */
    MPI_Request receive[CF_MAX_WINDOW];
    MPI_Request send[CF_MAX_WINDOW];
};

static int part_of(const struct cf_ring *ring, int t) {
    return (ring->first - t % ring->parts->n + ring->parts->n) % ring->parts->n;
}

/* Segments in part t. An empty part has one, an empty message, so that every step has a message and
 * the deadlock argument above holds. */
static int segments_of(const struct stream *stream, int t) {
    const struct cf_ring *ring = stream->ring;
    const int segments = cf_segments(ring->parts->counts[part_of(ring, t)], stream->segment);
    return segments > 0 ? segments : 1;
}

static void advance(const struct stream *stream, struct place *place) {
    if (++place->segment == segments_of(stream, place->t)) {
        place->segment = 0;
        place->t++;
    }
}

/* Displacement of a segment in this rank's data on its lane. */
static int unit_at(const struct stream *stream, const struct place *place) {
    const int part = part_of(stream->ring, place->t);
    return stream->ring->parts->displs[part] + place->segment * stream->segment;
}

/* cut_at: units of a segment as the parts are cut. units_at: those that this lane has. */
static int cut_at(const struct stream *stream, const struct place *place) {
    const struct cf_ring *ring = stream->ring;
    return cf_segment_count(place->segment, stream->segment,
                            ring->parts->counts[part_of(ring, place->t)]);
}

static int units_at(const struct stream *stream, const struct place *place) {
    return cf_units_within(unit_at(stream, place), cut_at(stream, place), stream->ring->count);
}

/* Address of a segment in a vector of all parts. */
static void *in_vector(const struct stream *stream, const void *vector, const struct place *place) {
    return cf_at(stream->call->unit, vector, unit_at(stream, place));
}

/* Address of segment number `index` of the stream, for sending and receiving. */
static void *at_place(const struct stream *stream, const struct place *place, int index) {
    const struct cf_ring *ring = stream->ring;

    if (place->t == 0 && ring->reduced > 0) {
        return in_vector(stream, stream->call->from, place);
    }
    if (place->t < ring->reduced) {
        return stream->partial + index % stream->slots * stream->apart;
    }
    if (place->t == ring->reduced && ring->alone) {
        return cf_at(stream->call->unit, stream->call->to,
                     (MPI_Aint)place->segment * stream->segment);
    }
    return in_vector(stream, stream->call->to, place);
}

/* Allocates the slots for partial sums. A slot is in use from the receive until the send has
 * completed, which is seen `window` segments later. */
static int make_room(struct stream *stream) {
    const struct cf_ring *ring = stream->ring;

    if (ring->reduced < 2) {
        return MPI_SUCCESS;
    }
    const struct cf_unit *unit = stream->call->unit;
    stream->slots = stream->lead + stream->window + 1;
    const MPI_Aint units = (MPI_Aint)stream->slots * stream->segment;
    if (units <= ring->count) { /* no more elements than the vectors: extents suffice */
        stream->apart = stream->segment * unit->extent;
        stream->partial = cf_temp(stream->call->comm, CF_SLOT_LANE, units, unit);
    } else {
        stream->partial = cf_temps(stream->call->comm, CF_SLOT_LANE, stream->slots, stream->segment,
                                   unit, &stream->apart);
    }
    return stream->partial == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
}

static int begin(struct stream *stream, const struct cf_ring *ring) {
    int longest = 1;

    for (int part = 0; part < ring->parts->n; part++) {
        longest = cf_larger(longest, ring->parts->counts[part]);
    }
    stream->ring = ring;
    stream->call = ring->call;
    stream->segment = ring->segment < longest ? ring->segment : longest;
    stream->window = cf_window(ring->window);
    stream->lead = segments_of(stream, 0);
    if (stream->window > stream->lead) {
        stream->window = stream->lead;
    }
    cf_requests_clear(stream->receive, stream->window);
    cf_requests_clear(stream->send, stream->window);
    return make_room(stream);
}

/* Runs the node step that provides this rank's operand of a segment. */
static int provide(const struct stream *stream, const struct place *place) {
    return cf_pipe_before(stream->call->pipe, unit_at(stream, place), cut_at(stream, place));
}

/* Runs the node step for a segment with its final value. */
static int finish(const struct stream *stream, const struct place *place) {
    return cf_pipe_after(stream->call->pipe, unit_at(stream, place), cut_at(stream, place));
}

static int take(struct stream *stream, const struct place *place, int index) {
    const struct cf_ring *ring = stream->ring;

    CF_TRY(cf_wait(&stream->receive[index % stream->window]));
    if (place->t <= ring->reduced) {
        CF_TRY(cf_combine(stream->call->comm, in_vector(stream, stream->call->from, place),
                          at_place(stream, place, index), units_at(stream, place),
                          stream->call->unit, stream->call->op));
    }
    return place->t < ring->reduced ? MPI_SUCCESS : finish(stream, place);
}

static int pass_on(struct stream *stream, const struct place *place, int index) {
    const struct cf_over *at = &stream->call->over;
    MPI_Request *request = &stream->send[index % stream->window];

    CF_TRY(cf_wait(request));
    if (place->t == 0 && stream->ring->reduced > 0) {
        CF_TRY(provide(stream, place));
    }
    CF_TRY(PMPI_Isend(at_place(stream, place, index), units_at(stream, place),
                      stream->call->unit->type, (at->rank + 1) % at->size, 0, at->comm, request));
    return place->t == 0 && stream->ring->reduced == 0 ? finish(stream, place) : MPI_SUCCESS;
}

/* A node step with units of this rank waits for all ranks of the node, which may read the result's
 * memory until they call. So one comes before the first receive into it: this one, or that of part
 * 0, which is not empty if any is. */
static int ask_for(struct stream *stream, const struct place *place, int index) {
    const struct cf_over *at = &stream->call->over;
    const bool provides = place->t <= stream->ring->reduced;
    const bool before = place->t == stream->ring->reduced && place->segment == 0;

    if (before) {
        CF_TRY(provide(stream, place));
    }
    CF_TRY(PMPI_Irecv(at_place(stream, place, index), units_at(stream, place),
                      stream->call->unit->type, (at->rank - 1 + at->size) % at->size, 0, at->comm,
                      &stream->receive[index % stream->window]));
    return provides && !before ? provide(stream, place) : MPI_SUCCESS;
}

static int flow(struct stream *stream) {
    const int steps = stream->ring->steps;
    struct place asked = {1, 0};
    struct place taken = {1, 0};
    struct place sent = {0, 0};

    for (int i = 0; taken.t <= steps || sent.t < steps; i++) {
        const int ahead = stream->lead + i;
        if (i >= stream->window && taken.t <= steps) {
            CF_TRY(take(stream, &taken, ahead - stream->window));
            advance(stream, &taken);
        }
        if (asked.t <= steps) {
            CF_TRY(ask_for(stream, &asked, ahead));
            advance(stream, &asked);
        }
        if (sent.t < steps) {
            CF_TRY(pass_on(stream, &sent, i));
            advance(stream, &sent);
        }
    }
    return MPI_SUCCESS;
}

int cf_ring_run(const struct cf_ring *ring) {
    struct stream stream = {NULL};

    if (ring->steps == 0) {
        return MPI_SUCCESS;
    }
    CF_TRY(begin(&stream, ring));
    return cf_requests_end(stream.receive, stream.send, stream.window, flow(&stream));
}
