/*
 * Vectors in chunks, by exchanges between all ranks. Each rank receives a part of every chunk from
 * all ranks (stage 1), combines it, and sends the result to all ranks (stage 2). Every connection
 * between two ranks thus has its share of the traffic. These are the algorithms of van de Geijn
 * (scatter and allgather) and Rabenseifner (reduce-scatter and allgather) without their trees.
 * Stage 2 of a chunk overlaps with stage 1 of the next.
 *
 * Example: an allreduce of a chunk of 4 units on ranks 0, 1 and 2. The parts are units 0, 1, and 2
 * and 3. Rank 1 receives unit 1 of all ranks, combines them, and sends the result to all.
 */
#include "chunks/chunks.h"

/* One chunk: its communicator and its data. */
struct piece {
    struct cf_chunk *chunk;
    int first; /* in the vector, or in each block */
    int units;
    void *parts; /* [size] the parts that this rank receives to combine, contiguous */
};

struct job {
    struct cf_comm *comm;
    struct cf_chunk_set *set;
    const struct cf_unit *unit;
    const void *from;
    void *to;
    char *parts; /* of all chunks */
    int copies;  /* of each unit of count in `parts`: 1, or one per block */
    int count;
    MPI_Op op;
    int root;
    int (*collect)(const struct job *job, const struct piece *piece, MPI_Request *request);
    int (*work)(const struct job *job, const struct piece *piece);
    /* NULL: no stage 2 */
    int (*hand_on)(const struct job *job, const struct piece *piece, MPI_Request *request);
};

static int begin_of(int units, int n, int i) {
    return (int)((int64_t)units * i / n);
}

/* The units of a rank's part of a chunk. */
static int part_of(const struct job *job, const struct piece *piece, int rank) {
    const int n = job->comm->layout.size;

    return begin_of(piece->units, n, rank + 1) - begin_of(piece->units, n, rank);
}

static struct piece piece_of(const struct job *job, int c) {
    const int first = begin_of(job->count, job->set->n, c);
    const int units = begin_of(job->count, job->set->n, c + 1) - first;
    const int size = job->comm->layout.size;
    /* Displacement after the chunks before, whose parts are rounded up. */
    const MPI_Aint before = (MPI_Aint)first * job->copies + (MPI_Aint)c * size;

    return (struct piece){&job->set->chunk[c], first, units,
                          job->parts == NULL ? NULL : cf_at(job->unit, job->parts, before)};
}

/* Ends stage 1 of a chunk. Returns whether stage 2 was started. */
static bool go_on(const struct job *job, int c, int *err) {
    const struct piece piece = piece_of(job, c);

    cf_note(err, job->work == NULL ? MPI_SUCCESS : job->work(job, &piece));
    if (job->hand_on != NULL) {
        cf_note(err, job->hand_on(job, &piece, &job->set->requests[c]));
    }
    return job->hand_on != NULL;
}

/* Waits for all started stages, even after an error, because they still use their buffers. */
static int run(struct job *job) {
    MPI_Request *requests = job->set->requests;
    int left = 0;
    int err = MPI_SUCCESS;

    for (int c = 0; c < job->set->n; c++) {
        const struct piece piece = piece_of(job, c);
        requests[c] = MPI_REQUEST_NULL;
        piece.chunk->handed_on = false;
        if (piece.units > 0) {
            cf_note(&err, job->collect(job, &piece, &requests[c]));
            left++;
        }
    }
    while (left > 0) {
        int c = MPI_UNDEFINED;
        cf_note(&err, PMPI_Waitany(job->set->n, requests, &c, MPI_STATUS_IGNORE));
        if (c == MPI_UNDEFINED) {
            break; /* those that failed to start */
        }
        struct cf_chunk *chunk = &job->set->chunk[c];
        chunk->handed_on = !chunk->handed_on && go_on(job, c, &err);
        left -= !chunk->handed_on;
    }
    return err;
}

static struct job job_of(struct cf_comm *comm, const struct cf_chunks *chunks, int count,
                         const struct cf_unit *unit) {
    return (struct job){
        .comm = comm, .set = cf_chunks_find(comm, chunks), .unit = unit, .count = count};
}

/* ---- parts of a vector ----------------------------------------------------------------------- */

/* Sets the counts and displacements of all ranks' parts in the vector. */
static void find_parts(const struct job *job, const struct piece *piece) {
    const int size = job->comm->layout.size;

    for (int rank = 0; rank < size; rank++) {
        piece->chunk->counts[rank] = part_of(job, piece, rank);
        piece->chunk->displs[rank] = piece->first + begin_of(piece->units, size, rank);
    }
}

/* Sets the counts and displacements of the received parts, `units` from each rank. */
static void line_up(const struct job *job, const struct piece *piece, int units) {
    for (int rank = 0; rank < job->comm->layout.size; rank++) {
        piece->chunk->lined_counts[rank] = units;
        piece->chunk->lined_displs[rank] = rank * units;
    }
}

static int exchange(const struct job *job, const struct piece *piece, MPI_Request *request) {
    const struct cf_chunk *chunk = piece->chunk;
    const MPI_Datatype type = job->unit->type;

    return PMPI_Ialltoallv(job->from, chunk->counts, chunk->displs, type, piece->parts,
                           chunk->lined_counts, chunk->lined_displs, type, chunk->comm, request);
}

static int collect_parts(const struct job *job, const struct piece *piece, MPI_Request *request) {
    find_parts(job, piece);
    line_up(job, piece, part_of(job, piece, job->comm->layout.rank));
    return exchange(job, piece, request);
}

/* Combines from the last rank to the first, into the last rank's part. */
static int combine(const struct job *job, const struct piece *piece, int units) {
    const int last = job->comm->layout.size - 1;
    void *sum = cf_at(job->unit, piece->parts, (MPI_Aint)last * units);

    for (int rank = last - 1; rank >= 0 && units > 0; rank--) {
        const void *part = cf_at(job->unit, piece->parts, (MPI_Aint)rank * units);
        CF_TRY(cf_combine(job->comm, part, sum, units, job->unit, job->op));
    }
    return MPI_SUCCESS;
}

static int combine_parts(const struct job *job, const struct piece *piece) {
    return combine(job, piece, part_of(job, piece, job->comm->layout.rank));
}

static void *sum_of(const struct job *job, const struct piece *piece, int units) {
    return cf_at(job->unit, piece->parts, (MPI_Aint)(job->comm->layout.size - 1) * units);
}

static int hand_to_all(const struct job *job, const struct piece *piece, MPI_Request *request) {
    const struct cf_chunk *chunk = piece->chunk;
    const MPI_Datatype type = job->unit->type;
    const int own = part_of(job, piece, job->comm->layout.rank);

    return PMPI_Iallgatherv(sum_of(job, piece, own), own, type, job->to, chunk->counts,
                            chunk->displs, type, chunk->comm, request);
}

static int hand_to_root(const struct job *job, const struct piece *piece, MPI_Request *request) {
    const struct cf_chunk *chunk = piece->chunk;
    const MPI_Datatype type = job->unit->type;
    const int own = part_of(job, piece, job->comm->layout.rank);

    return PMPI_Igatherv(sum_of(job, piece, own), own, type, job->to, chunk->counts, chunk->displs,
                         type, job->root, chunk->comm, request);
}

/* Allocates `parts`: a whole vector, or this rank's blocks of all ranks, plus rounding. */
static bool get_room(struct job *job, int copies) {
    const MPI_Aint rounding = (MPI_Aint)job->set->n * job->comm->layout.size;

    job->copies = copies;
    job->parts =
        cf_temp(job->comm, CF_SLOT_OPERAND, (MPI_Aint)job->count * copies + rounding, job->unit);
    return job->parts != NULL;
}

int cf_exchange_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                          const struct cf_unit *unit, MPI_Op op, const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    job.from = from;
    job.to = to;
    job.op = op;
    job.collect = collect_parts;
    job.work = combine_parts;
    job.hand_on = hand_to_all;
    return get_room(&job, 1) ? run(&job) : MPI_ERR_NO_MEM;
}

int cf_exchange_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                       const struct cf_unit *unit, MPI_Op op, int root,
                       const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    job.from = from;
    job.to = to;
    job.op = op;
    job.root = root;
    job.collect = collect_parts;
    job.work = combine_parts;
    job.hand_on = hand_to_root;
    return get_room(&job, 1) ? run(&job) : MPI_ERR_NO_MEM;
}

/* ---- bcast ----------------------------------------------------------------------------------- */

static int scatter(const struct job *job, const struct piece *piece, MPI_Request *request) {
    const struct cf_chunk *chunk = piece->chunk;
    const MPI_Datatype type = job->unit->type;
    const int me = job->comm->layout.rank;

    find_parts(job, piece);
    void *own = me == job->root ? MPI_IN_PLACE : cf_at(job->unit, job->to, chunk->displs[me]);
    return PMPI_Iscatterv(job->from, chunk->counts, chunk->displs, type, own, chunk->counts[me],
                          type, job->root, chunk->comm, request);
}

static int spread(const struct job *job, const struct piece *piece, MPI_Request *request) {
    const struct cf_chunk *chunk = piece->chunk;
    const MPI_Datatype type = job->unit->type;
    const int me = job->comm->layout.rank;
    const void *own =
        me == job->root ? cf_at(job->unit, job->from, chunk->displs[me]) : MPI_IN_PLACE;

    return PMPI_Iallgatherv(own, chunk->counts[me], type, job->to, chunk->counts, chunk->displs,
                            type, chunk->comm, request);
}

/* The root receives into a temporary: its own buffer may be read-only. */
int cf_exchange_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit,
                      int root, const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    const bool is_root = comm->layout.rank == root;
    job.from = data;
    job.to = is_root ? cf_temp(comm, CF_SLOT_OPERAND, count, unit) : data;
    CF_TRY_MEMORY(job.to);
    job.root = root;
    job.collect = scatter;
    job.hand_on = spread;
    return run(&job);
}

/* ---- reduce_scatter: a chunk has a part of each block
 * ------------------------------------------- */

static int collect_blocks(const struct job *job, const struct piece *piece, MPI_Request *request) {
    for (int rank = 0; rank < job->comm->layout.size; rank++) {
        piece->chunk->counts[rank] = piece->units;
        piece->chunk->displs[rank] = rank * job->count + piece->first;
    }
    line_up(job, piece, piece->units);
    return exchange(job, piece, request);
}

static int combine_blocks(const struct job *job, const struct piece *piece) {
    CF_TRY(combine(job, piece, piece->units));
    return cf_copy(job->comm, cf_at(job->unit, job->to, piece->first),
                   sum_of(job, piece, piece->units), piece->units, job->unit);
}

/* The callers never pass from == to: the result would overwrite blocks that are still sent. */
int cf_exchange_reduce_scatter(struct cf_comm *comm, const void *from, void *to, int count,
                               const struct cf_unit *unit, MPI_Op op,
                               const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    job.from = from;
    job.to = to;
    job.op = op;
    job.collect = collect_blocks;
    job.work = combine_blocks;
    return get_room(&job, comm->layout.size) ? run(&job) : MPI_ERR_NO_MEM;
}
