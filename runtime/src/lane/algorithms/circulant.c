/*
 * The circulant graph on a lane (specs/algorithms/circulant.toml). With 5 nodes the skips are 1, 2,
 * 3 and 5. The nodes form a circle, and so do their parts.
 */
#include "lane/circulant.h"
#include "lane/lane.h"
#include "lane_algorithms.h"

/* A step: n parts of a vector, from part `sent` on, go to rank `target`, and those from part `got`
 * on come from rank `source` into another one. */
struct step {
    int n;
    int target;
    const void *from;
    int sent;
    int source;
    void *to;
    int got;
};

/* Units of a vector. */
struct stretch {
    int at;
    int units;
};

/* The n parts from `first` on are at most two stretches of a vector: up to its end, and from its
 * beginning. */
static struct stretch stretch_of(const struct cf_split *parts, int first, int n, int which) {
    const int end = first + n;
    if (which == 1) {
        return (struct stretch){0, cf_split_units(parts, 0, end > parts->n ? end - parts->n : 0)};
    }
    return (struct stretch){cf_split_units(parts, 0, first),
                            cf_split_units(parts, first, end < parts->n ? end : parts->n)};
}

static int exchange(const struct cf_lane_call *call, const struct cf_split *parts,
                    const struct step *step) {
    struct cf_batch batch = {.n = 0};
    int err = MPI_SUCCESS;

    for (int i = 0; i < 2 && err == MPI_SUCCESS; i++) {
        const struct stretch out = stretch_of(parts, step->sent, step->n, i);
        const struct stretch in = stretch_of(parts, step->got, step->n, i);
        err = cf_batch_add(
            &batch,
            (struct cf_message){cf_at(call->unit, step->from, out.at), out.units, step->target},
            (struct cf_message){cf_at(call->unit, step->to, in.at), in.units, step->source},
            call->unit, call->over.comm);
    }
    return cf_batch_end(&batch, err);
}

/*
 * Rank r has part r and `have` - 1 parts after it, which grow from one skip to the next. It
 * receives those from r + have on. With 5 nodes, rank 3 has 3; receives 4 from 4; 0 from 0 (which
 * had 0 and 1); 1 and 2 from 1.
 */
static int gather_parts(const struct cf_lane_call *call, const struct cf_split *parts) {
    const int n = call->over.size;
    const int node = call->over.rank;
    struct cf_circle circle;

    cf_circle_of(&circle, n);
    for (int k = 0; k < circle.rounds; k++) {
        const int have = circle.skip[k];
        const int after = (node + have) % n;
        const struct step step = {
            .n = circle.skip[k + 1] - have,
            .target = (node - have + n) % n,
            .from = call->to,
            .sent = node,
            .source = after,
            .to = call->to,
            .got = after,
        };
        CF_TRY(exchange(call, parts, &step));
    }
    return MPI_SUCCESS;
}

/*
 * The way back. Rank r has partial sums for itself and the `have` - 1 ranks after it. It sends
 * those of the further half over a distance of the next skip. With 5 nodes, rank 0 sends x0 of the
 * parts 3 and 4 to 3; then the part 2 of x0 o x2 to 2; then the part 1 of x0 o x3 to 1. At the end
 * sums has the sum of part r.
 */
static int reduce_parts(const struct cf_lane_call *call, const struct cf_split *parts, void *sums,
                        void *coming) {
    const int n = call->over.size;
    const int node = call->over.rank;
    struct cf_circle circle;

    cf_circle_of(&circle, n);
    for (int k = circle.rounds - 1; k >= 0; k--) {
        const bool first = k == circle.rounds - 1;
        const int skip = circle.skip[k];
        const struct step step = {
            .n = circle.skip[k + 1] - skip,
            .target = (node + skip) % n,
            .from = first ? call->from : sums,
            .sent = (node + skip) % n,
            .source = (node - skip + n) % n,
            .to = first ? sums : coming,
            .got = node,
        };
        CF_TRY(exchange(call, parts, &step));
        for (int i = 0; i < 2; i++) {
            const struct stretch in = stretch_of(parts, node, step.n, i);
            CF_TRY(cf_combine(call->comm, cf_at(call->unit, first ? call->from : coming, in.at),
                              cf_at(call->unit, sums, in.at), in.units, call->unit, call->op));
        }
        if (first && step.n < skip) { /* n is odd: nobody adds to the part in the middle yet */
            const int middle = (node + step.n) % n;
            CF_TRY(cf_copy(call->comm, cf_at(call->unit, sums, parts->displs[middle]),
                           cf_at(call->unit, call->from, parts->displs[middle]),
                           parts->counts[middle], call->unit));
        }
    }
    return MPI_SUCCESS;
}

int cf_circulant_allgather(const struct cf_lane_call *call) {
    const int node = call->over.rank;

    CF_TRY(cf_copy(call->comm, cf_at(call->unit, call->to, call->parts->displs[node]), call->from,
                   call->parts->counts[node], call->unit));
    return gather_parts(call, call->parts);
}

/* The operands of a part are not combined in rank order, so non-commutative ops use the MPI
 * library. */
int cf_circulant_reduce_scatter(const struct cf_lane_call *call) {
    const int node = call->over.rank;
    MPI_Aint apart = 0;

    if (!call->commutes) {
        return cf_native_reduce_scatter(call);
    }
    char *room = cf_temps(call->comm, CF_SLOT_LANE, 2, call->parts->total, call->unit, &apart);
    CF_TRY_MEMORY(room);
    CF_TRY(reduce_parts(call, call->parts, room, room + apart));
    return cf_copy(call->comm, call->to, cf_at(call->unit, room, call->parts->displs[node]),
                   call->parts->counts[node], call->unit);
}

/* Each part is summed by one rank, so all ranks get the same bits. */
int cf_circulant_allreduce(const struct cf_lane_call *call) {
    struct cf_split parts;

    if (!call->commutes) {
        return cf_native_allreduce(call);
    }
    CF_TRY(cf_split_even(&parts, call->comm, CF_SLOT_PARTS, call->over.size, call->count));
    void *coming = cf_temp(call->comm, CF_SLOT_LANE, call->count, call->unit);
    CF_TRY_MEMORY(coming);
    CF_TRY(reduce_parts(call, &parts, call->to, coming));
    return gather_parts(call, &parts);
}
