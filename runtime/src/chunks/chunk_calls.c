/* The collectives of chunks.h: the MPI call of each chunk, and its carrier (threads, nonblocking
 * calls or exchanges). */
#include "chunks/chunks.h"

#include "base/threads.h"
#include "data/component.h"
#include "data/facts.h"

/* One call, to be cut into chunks. */
struct job {
    struct cf_chunk_set *set;
    const struct cf_layout *at;
    const struct cf_unit *unit;
    const void *from;
    void *to;
    void *packed; /* packed input of all chunks, for calls that need another block order */
    int count;    /* units to cut */
    MPI_Op op;
    int root;
    /* Calls MPI for the units from first on, of the vector or of each block. Blocking if request is
     * NULL. */
    int (*call)(const struct job *job, struct cf_chunk *chunk, int first, int units,
                MPI_Request *request);
};

/* The first unit of chunk c. */
static int begin_of(const struct job *job, int c) {
    return (int)((int64_t)job->count * c / job->set->n);
}

/* Runs one chunk; does nothing for an empty one, on all ranks alike. */
static int call_chunk(const struct job *job, int c, MPI_Request *request) {
    const int first = begin_of(job, c);
    const int units = begin_of(job, c + 1) - first;

    return units == 0 ? MPI_SUCCESS : job->call(job, &job->set->chunk[c], first, units, request);
}

static int call_blocking(void *job, int c) {
    return call_chunk(job, c, NULL);
}

/* Waits for all requests even if one call failed, because the others still use their buffers. */
static int call_nonblocking(const struct job *job) {
    MPI_Request *requests = job->set->requests;
    int first = MPI_SUCCESS;

    for (int c = 0; c < job->set->n; c++) {
        requests[c] = MPI_REQUEST_NULL;
        cf_note(&first, call_chunk(job, c, &requests[c]));
    }
    /* MPI makes progress on all requests in each wait. */
    for (int c = 0; c < job->set->n; c++) {
        cf_note(&first, PMPI_Wait(&requests[c], MPI_STATUS_IGNORE));
    }
    return first;
}

static int run(struct job *job, const struct cf_chunks *chunks) {
    return chunks->carrier == CF_CARRIER_THREADS
               ? cf_threads_run(call_blocking, job, job->set->n, job->at->threads)
               : call_nonblocking(job);
}

static struct job job_of(const struct cf_comm *comm, const struct cf_chunks *chunks, int count,
                         const struct cf_unit *unit) {
    return (struct job){
        .set = cf_chunks_find(comm, chunks), .at = &comm->layout, .unit = unit, .count = count};
}

/* ---- vectors --------------------------------------------------------------------------------- */

static int bcast(const struct job *job, struct cf_chunk *chunk, int first, int units,
                 MPI_Request *request) {
    void *data = cf_at(job->unit, job->to, first);
    const int root = chunk->place_of[job->root];

    return request == NULL ? PMPI_Bcast(data, units, job->unit->type, root, chunk->comm)
                           : PMPI_Ibcast(data, units, job->unit->type, root, chunk->comm, request);
}

int cf_chunks_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit,
                    int root, const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    if (chunks->carrier == CF_CARRIER_EXCHANGE) {
        return cf_exchange_bcast(comm, data, count, unit, root, chunks);
    }
    job.to = data;
    job.root = root;
    job.call = bcast;
    return run(&job, chunks);
}

static int reduce(const struct job *job, struct cf_chunk *chunk, int first, int units,
                  MPI_Request *request) {
    const void *from = cf_at(job->unit, job->from, first);
    void *to = job->at->rank == job->root ? cf_at(job->unit, job->to, first) : NULL;
    const int root = chunk->place_of[job->root];
    const MPI_Datatype type = job->unit->type;

    return request == NULL
               ? PMPI_Reduce(from, to, units, type, job->op, root, chunk->comm)
               : PMPI_Ireduce(from, to, units, type, job->op, root, chunk->comm, request);
}

/* Never in place: MPICH 4.0.2 crashes then (its issue 6540). */
int cf_chunks_reduce(struct cf_comm *comm, const void *from, void *to, int count,
                     const struct cf_unit *unit, MPI_Op op, int root,
                     const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);
    const struct cf_chunk *whole = &job.set->chunk[0];

    if (chunks->carrier == CF_CARRIER_EXCHANGE && cf_op_is_predefined(op)) {
        return cf_exchange_reduce(comm, from, to, count, unit, op, root, chunks);
    }
    if (comm->layout.rank == root && from == to) {
        CF_TRY(cf_copy_apart(comm, CF_SLOT_OPERAND, &from, count, unit));
    }
    if (!cf_op_is_predefined(op)) {
        return cf_reduce(comm, from, to, count, unit, op, whole->place_of[root], whole->comm);
    }
    job.from = from;
    job.to = to;
    job.op = op;
    job.root = root;
    job.call = reduce;
    return run(&job, chunks);
}

static int allreduce(const struct job *job, struct cf_chunk *chunk, int first, int units,
                     MPI_Request *request) {
    const void *from = job->from == job->to ? MPI_IN_PLACE : cf_at(job->unit, job->from, first);
    void *to = cf_at(job->unit, job->to, first);
    const MPI_Datatype type = job->unit->type;

    return request == NULL ? PMPI_Allreduce(from, to, units, type, job->op, chunk->comm)
                           : PMPI_Iallreduce(from, to, units, type, job->op, chunk->comm, request);
}

int cf_chunks_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, MPI_Op op, const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    if (!cf_op_is_predefined(op)) {
        const struct cf_chunk *whole = &job.set->chunk[0];
        CF_TRY(cf_chunks_reduce(comm, from, to, count, unit, op, whole->rank_at[0], chunks));
        return cf_bcast(comm, to, count, unit, 0, whole->comm);
    }
    if (chunks->carrier == CF_CARRIER_EXCHANGE) {
        return cf_exchange_allreduce(comm, from, to, count, unit, op, chunks);
    }
    job.from = from;
    job.to = to;
    job.op = op;
    job.call = allreduce;
    return run(&job, chunks);
}

/* ---- blocks: a chunk has a part of each ------------------------------------------------------ */

/* Sets counts and displs to the same part of all blocks, for blocks in rank order. */
static void find_parts(const struct job *job, const struct cf_chunk *chunk, int first, int units) {
    for (int place = 0; place < job->at->size; place++) {
        chunk->counts[place] = units;
        chunk->displs[place] = chunk->rank_at[place] * job->count + first;
    }
}

static int allgather(const struct job *job, struct cf_chunk *chunk, int first, int units,
                     MPI_Request *request) {
    const MPI_Datatype type = job->unit->type;
    const bool in_place =
        job->from == cf_at(job->unit, job->to, (MPI_Aint)job->at->rank * job->count);
    const void *from = in_place ? MPI_IN_PLACE : cf_at(job->unit, job->from, first);

    find_parts(job, chunk, first, units);
    return request == NULL ? PMPI_Allgatherv(from, units, type, job->to, chunk->counts,
                                             chunk->displs, type, chunk->comm)
                           : PMPI_Iallgatherv(from, units, type, job->to, chunk->counts,
                                              chunk->displs, type, chunk->comm, request);
}

int cf_chunks_allgather(struct cf_comm *comm, const void *from, void *to, int count,
                        const struct cf_unit *unit, const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    job.from = from;
    job.to = to;
    job.call = allgather;
    return run(&job, chunks);
}

static int alltoall(const struct job *job, struct cf_chunk *chunk, int first, int units,
                    MPI_Request *request) {
    const MPI_Datatype type = job->unit->type;
    const int *counts = chunk->counts;
    const int *displs = chunk->displs;

    find_parts(job, chunk, first, units);
    return request == NULL ? PMPI_Alltoallv(job->from, counts, displs, type, job->to, counts,
                                            displs, type, chunk->comm)
                           : PMPI_Ialltoallv(job->from, counts, displs, type, job->to, counts,
                                             displs, type, chunk->comm, request);
}

int cf_chunks_alltoall(struct cf_comm *comm, const void *from, void *to, int count,
                       const struct cf_unit *unit, const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    job.from = from;
    job.to = to;
    job.call = alltoall;
    return run(&job, chunks);
}

/* Packs the same part of all blocks, in the order of the chunk's communicator. */
static int pack_parts(const struct job *job, struct cf_comm *comm, int c) {
    const int first = begin_of(job, c);
    const int units = begin_of(job, c + 1) - first;
    char *to = cf_at(job->unit, job->packed, (MPI_Aint)first * job->at->size);

    for (int place = 0; place < job->at->size; place++) {
        const MPI_Aint block = (MPI_Aint)job->set->chunk[c].rank_at[place] * job->count;
        CF_TRY(cf_copy(comm, cf_at(job->unit, to, (MPI_Aint)place * units),
                       cf_at(job->unit, job->from, block + first), units, job->unit));
    }
    return MPI_SUCCESS;
}

static int reduce_scatter(const struct job *job, struct cf_chunk *chunk, int first, int units,
                          MPI_Request *request) {
    const void *from = cf_at(job->unit, job->packed, (MPI_Aint)first * job->at->size);
    void *to = cf_at(job->unit, job->to, first);
    const MPI_Datatype type = job->unit->type;

    return request == NULL
               ? PMPI_Reduce_scatter_block(from, to, units, type, job->op, chunk->comm)
               : PMPI_Ireduce_scatter_block(from, to, units, type, job->op, chunk->comm, request);
}

/* For a user's op: see cf_reduce_scatter. */
static int reduce_then_scatter(struct cf_comm *comm, const struct job *job, MPI_Op op) {
    const struct cf_chunk *whole = &job->set->chunk[0];
    const int units = job->count * job->at->size;
    void *sum = cf_temp(comm, CF_SLOT_RESULT, units, job->unit);

    CF_TRY_MEMORY(sum);
    CF_TRY(cf_reduce(comm, job->from, sum, units, job->unit, op, 0, whole->comm));
    find_parts(job, whole, 0, job->count);
    return PMPI_Scatterv(sum, whole->counts, whole->displs, job->unit->type, job->to, job->count,
                         job->unit->type, 0, whole->comm);
}

int cf_chunks_reduce_scatter(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit, MPI_Op op,
                             const struct cf_chunks *chunks) {
    struct job job = job_of(comm, chunks, count, unit);

    job.from = from;
    job.to = to;
    job.op = op;
    job.call = reduce_scatter;
    if (!cf_op_is_predefined(op)) {
        return reduce_then_scatter(comm, &job, op);
    }
    if (chunks->carrier == CF_CARRIER_EXCHANGE) {
        return cf_exchange_reduce_scatter(comm, from, to, count, unit, op, chunks);
    }
    job.packed = cf_temp(comm, CF_SLOT_OPERAND, (MPI_Aint)count * comm->layout.size, unit);
    CF_TRY_MEMORY(job.packed);
    for (int c = 0; c < job.set->n; c++) {
        CF_TRY(pack_parts(&job, comm, c));
    }
    return run(&job, chunks);
}
