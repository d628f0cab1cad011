/* Runs the node steps around a lane algorithm segment by segment. */
#include "lane/lane.h"

#include "node/shared_window.h"

/* Whether the steps can run by segments. shared.c must not fall back to the MPI library, whose
 * regular collectives ignore displacements. */
static bool fits(const struct cf_pipe *pipe) {
    const struct cf_layout *at = &pipe->comm->layout;

    return pipe->split->alike && pipe->unit->size <= CF_SHARED_PIECE / at->node_size[at->node];
}

int cf_pipe_open(struct cf_pipe *pipe, bool wanted) {
    const int n = pipe->split->n;

    pipe->open = false;
    if (!wanted || !fits(pipe)) {
        return MPI_SUCCESS;
    }
    int *numbers = cf_tmpbuf(&pipe->comm->tmpbufs, CF_SLOT_PIPE, 2 * (size_t)n * sizeof *numbers);
    CF_TRY_MEMORY(numbers);
    pipe->piece = (struct cf_split){.n = n, .counts = numbers, .displs = numbers + n};
    pipe->open = true;
    return MPI_SUCCESS;
}

/* Runs an element-wise step on the parts of a whole vector that all ranks' segments make up. */
static int run_elements(const struct cf_pipe *pipe, const struct cf_pipe_step *step, int first,
                        int units) {
    const struct cf_unit *unit = pipe->unit;

    for (int i = 0; i < pipe->split->n; i++) {
        const int at = pipe->split->displs[i] + first;
        const int count = cf_units_within(first, units, pipe->split->counts[i]);
        const void *from = cf_at(unit, step->from, at);
        void *to = cf_at(unit, step->to, at);
        switch (step->call) {
        case CF_PIPE_SCAN:
            CF_TRY(cf_shared_scan(pipe->comm, from, to, count, unit, step->op));
            break;
        case CF_PIPE_EXSCAN:
            CF_TRY(cf_shared_exscan(pipe->comm, from, to, count, unit, step->op));
            break;
        case CF_PIPE_COMBINE:
            CF_TRY(cf_combine(pipe->comm, from, to, count, unit, step->op));
            break;
        case CF_PIPE_COPY:
            CF_TRY(cf_copy(pipe->comm, to, from, count, unit));
            break;
        default:
            return MPI_SUCCESS;
        }
    }
    return MPI_SUCCESS;
}

static int run_piece(const struct cf_pipe *pipe, const struct cf_pipe_step *step, int first,
                     int units) {
    const struct cf_split *piece = &pipe->piece;
    const struct cf_unit *unit = pipe->unit;

    if (units == 0 || step->call == CF_PIPE_NOTHING) {
        return MPI_SUCCESS;
    }
    for (int i = 0; i < piece->n; i++) {
        piece->counts[i] = cf_units_within(first, units, pipe->split->counts[i]);
        piece->displs[i] = pipe->split->displs[i] + first;
    }
    switch (step->call) {
    case CF_PIPE_SCATTER:
        return cf_shared_scatter(pipe->comm, step->from, piece, cf_at(unit, step->to, first), unit,
                                 step->root);
    case CF_PIPE_REDUCE_SCATTER:
        return cf_shared_reduce_scatter(pipe->comm, step->from, cf_at(unit, step->to, first), piece,
                                        unit, step->op);
    case CF_PIPE_GATHER:
        return cf_shared_gather(pipe->comm, cf_at(unit, step->from, first), step->to, piece, unit,
                                step->root);
    case CF_PIPE_ALLGATHER:
        return cf_shared_allgather(pipe->comm, cf_at(unit, step->from, first), step->to, piece,
                                   unit);
    default:
        return MPI_SUCCESS;
    }
}

static bool is_open(const struct cf_pipe *pipe) {
    return pipe != NULL && pipe->open;
}

int cf_pipe_before(const struct cf_pipe *pipe, int first, int units) {
    return is_open(pipe) ? run_piece(pipe, &pipe->before, first, units) : MPI_SUCCESS;
}

int cf_pipe_after(const struct cf_pipe *pipe, int first, int units) {
    if (!is_open(pipe) || units == 0) {
        return MPI_SUCCESS;
    }
    CF_TRY(run_piece(pipe, &pipe->after, first, units));
    for (int i = 0; i < CF_PIPE_STEPS; i++) {
        CF_TRY(run_elements(pipe, &pipe->then[i], first, units));
    }
    return MPI_SUCCESS;
}
