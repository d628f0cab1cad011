#include "data/by_datatype.h"

/* A type of n blocks, each `stride` blocks after the one before. The next element of this type
 * begins `next` blocks after this one. */
static int make(const struct cf_unit *unit, int block, int n, int stride, int next,
                MPI_Datatype *type) {
    const MPI_Aint bytes = block * unit->extent;
    MPI_Datatype blocks = MPI_DATATYPE_NULL;

    CF_TRY(PMPI_Type_create_hvector(n, block, stride * bytes, unit->type, &blocks));
    const int err = PMPI_Type_create_resized(blocks, 0, next * bytes, type);
    CF_TRY(PMPI_Type_free(&blocks));
    CF_TRY(err);
    return PMPI_Type_commit(type);
}

/* Frees the type and returns the first error. */
static int release(MPI_Datatype *type, int err) {
    const int freed = PMPI_Type_free(type);

    return err == MPI_SUCCESS ? freed : err;
}

/* The blocks of one lane; the next lane's begin one block further. */
static int make_lane(const struct cf_layout *at, int block, const struct cf_unit *unit,
                     MPI_Datatype *type) {
    return make(unit, block, at->nodes, at->node_size[0], 1, type);
}

int cf_allgather_apart(struct cf_comm *comm, const void *from, void *to, int block,
                       const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype apart = MPI_DATATYPE_NULL;

    CF_TRY(make(unit, block, 1, 1, at->node_size[0], &apart));
    void *out = cf_at(unit, to, (MPI_Aint)at->node_rank * block);
    /* Open MPI chooses its algorithm by the send count, also in place, where the type is the
     * receive type: it must be as many bytes on all ranks. */
    const bool in_place = from == cf_at(unit, to, (MPI_Aint)at->rank * block);
    return release(
        &apart, in_place ? PMPI_Allgather(MPI_IN_PLACE, 1, apart, out, 1, apart, at->lane_comm)
                         : PMPI_Allgather(from, block, unit->type, out, 1, apart, at->lane_comm));
}

int cf_allgather_interleaved(struct cf_comm *comm, void *data, int block,
                             const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype lane = MPI_DATATYPE_NULL;

    CF_TRY(make_lane(at, block, unit, &lane));
    return release(&lane, PMPI_Allgather(MPI_IN_PLACE, 1, lane, data, 1, lane, at->node_comm));
}

int cf_gather_interleaved(struct cf_comm *comm, const void *from, void *to, int block,
                          const struct cf_unit *unit, int root) {
    const struct cf_layout *at = &comm->layout;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype lane = MPI_DATATYPE_NULL;

    CF_TRY(make_lane(at, block, unit, &lane));
    return release(
        &lane, PMPI_Gather(from, at->nodes * block, unit->type, to, 1, lane, root, at->node_comm));
}

int cf_scatter_interleaved(struct cf_comm *comm, const void *from, void *to, int block,
                           const struct cf_unit *unit, int root) {
    const struct cf_layout *at = &comm->layout;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype lane = MPI_DATATYPE_NULL;

    CF_TRY(make_lane(at, block, unit, &lane));
    return release(
        &lane, PMPI_Scatter(from, 1, lane, to, at->nodes * block, unit->type, root, at->node_comm));
}

int cf_alltoall_interleaved(struct cf_comm *comm, const void *from, void *to, int block,
                            const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype lane = MPI_DATATYPE_NULL;

    CF_TRY(make_lane(at, block, unit, &lane));
    return release(&lane,
                   PMPI_Alltoall(from, 1, lane, to, at->nodes * block, unit->type, at->node_comm));
}

int cf_alltoall_apart(struct cf_comm *comm, const void *from, void *to, int block,
                      const struct cf_unit *unit) {
    const struct cf_layout *at = &comm->layout;
    if (block == 0) {
        return MPI_SUCCESS; /* see by_datatype.h */
    }
    MPI_Datatype node = MPI_DATATYPE_NULL;

    /* Block (source, node) is at source * nodes + node. */
    CF_TRY(make(unit, block, at->node_size[0], at->nodes, 1, &node));
    return release(&node, PMPI_Alltoall(from, 1, node, to, at->node_size[0] * block, unit->type,
                                        at->lane_comm));
}
