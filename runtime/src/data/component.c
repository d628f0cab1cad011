#include "data/component.h"

#include "base/coroutine.h"
#include "base/library.h"
#include "data/facts.h"

/* This rank's count in the communicator. */
static int own_count(const struct cf_split *split, MPI_Comm over, int *count) {
    int rank = 0;
    const int err = PMPI_Comm_rank(over, &rank);

    *count = split->counts[rank];
    return err;
}

/*
 * Whether MPI_Gather and MPI_Scatter may move the parts, or only their v variants. Types whose
 * parts they would cut off occur in reductions only (data/unit.h), where each rank may have its
 * own, so all but bytes are meant.
 */
static bool may_be_forwarded(const struct cf_split *split, const struct cf_unit *unit) {
    return split->uniform && (unit->type == MPI_BYTE || !cf_library.cuts_forwarded_parts);
}

int cf_scatter(struct cf_comm *comm, const void *from, const struct cf_split *split, void *to,
               const struct cf_unit *unit, int root, MPI_Comm over) {
    (void)comm;
    int own = 0;

    CF_TRY(own_count(split, over, &own));
    if (may_be_forwarded(split, unit)) {
        return CF_CALL(Scatter, scatter, from, own, unit->type, to, own, unit->type, root, over);
    }
    return CF_CALL(Scatterv, scatterv, from, split->counts, split->displs, unit->type, to, own,
                   unit->type, root, over);
}

int cf_gather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
              const struct cf_unit *unit, int root, MPI_Comm over) {
    (void)comm;
    int own = 0;

    CF_TRY(own_count(split, over, &own));
    if (may_be_forwarded(split, unit)) {
        return CF_CALL(Gather, gather, from, own, unit->type, to, own, unit->type, root, over);
    }
    return CF_CALL(Gatherv, gatherv, from, own, unit->type, to, split->counts, split->displs,
                   unit->type, root, over);
}

int cf_allgather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                 const struct cf_unit *unit, MPI_Comm over) {
    int own = 0;

    CF_TRY(own_count(split, over, &own));
    if (over == comm->layout.lane_comm &&
        from == cf_at(unit, to, split->displs[comm->layout.node])) {
        from = MPI_IN_PLACE; /* a hybrid piece (collforge_hybrid.h) */
    }
    if (split->uniform) {
        return CF_CALL(Allgather, allgather, from, own, unit->type, to, own, unit->type, over);
    }
    return CF_CALL(Allgatherv, allgatherv, from, own, unit->type, to, split->counts, split->displs,
                   unit->type, over);
}

int cf_alltoall(struct cf_comm *comm, const void *from, const struct cf_split *send, void *to,
                const struct cf_split *receive, const struct cf_unit *unit, bool regular,
                MPI_Comm over) {
    (void)comm;
    if (regular) {
        return CF_CALL(Alltoall, alltoall, from, send->counts[0], unit->type, to,
                       receive->counts[0], unit->type, over);
    }
    return CF_CALL(Alltoallv, alltoallv, from, send->counts, send->displs, unit->type, to,
                   receive->counts, receive->displs, unit->type, over);
}

/*
 * Works around Open MPI 4.1.4. Its ring, chosen for few ranks, writes before its temporary if the
 * type's true lower bound is negative. Only a user's op can have such a type, and all ranks know
 * the op.
 */
int cf_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                 const struct cf_unit *unit, MPI_Op op, MPI_Comm over) {
    if (cf_op_is_predefined(op)) {
        return CF_CALL(Allreduce, allreduce, from, to, count, unit->type, op, over);
    }
    CF_TRY(cf_reduce(comm, from, to, count, unit, op, 0, over));
    return CF_CALL(Bcast, bcast, to, count, unit->type, 0, over);
}

/*
 * Sets from to a copy of it, if MPI calls a user's op, which may store into its first operand. Open
 * MPI hands it the send buffer, which later steps read.
 */
static int lend(struct cf_comm *comm, const void **from, int count, const struct cf_unit *unit,
                MPI_Op op) {
    return cf_op_is_predefined(op) || count == 0
               ? MPI_SUCCESS
               : cf_copy_apart(comm, CF_SLOT_COPIES, from, count, unit);
}

/* For ops that MPI_Reduce_scatter(_block) does not serve correctly. */
static int reduce_then_scatter(struct cf_comm *comm, const void *from, void *to,
                               const struct cf_split *split, const struct cf_unit *unit, MPI_Op op,
                               MPI_Comm over) {
    void *total = cf_temp(comm, CF_SLOT_LANE, split->total, unit);

    CF_TRY_MEMORY(total);
    CF_TRY(cf_reduce(comm, from, total, split->total, unit, op, 0, over));
    return cf_scatter(comm, total, split, to, unit, 0, over);
}

/*
 * If everything is for the first member, it is MPI_Reduce: method 1 of the hybrid allreduce of Zhou
 * et al. (2020), section 4.4.
 *
 * Works around two bugs with user-defined ops. MPICH 4.0.2's MPI_Reduce_scatter(_block) gives wrong
 * results, or overruns its buffer, if the op does not commute, the datatype has holes and the
 * number of ranks is a power of two. Open MPI 4.1.4's calls the op with no elements.
 */
int cf_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                      const struct cf_split *split, const struct cf_unit *unit, MPI_Op op,
                      MPI_Comm over) {
    if (split->counts[0] == split->total) {
        return cf_reduce(comm, from, to, split->total, unit, op, 0, over);
    }
    if (!cf_op_is_predefined(op)) {
        return reduce_then_scatter(comm, from, to, split, unit, op, over);
    }
    if (split->uniform) {
        return CF_CALL(Reduce_scatter_block, reduce_scatter_block, from, to, split->counts[0],
                       unit->type, op, over);
    }
    return CF_CALL(Reduce_scatter, reduce_scatter, from, to, split->counts, unit->type, op, over);
}

int cf_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit, int root,
             MPI_Comm over) {
    (void)comm;
    return CF_CALL(Bcast, bcast, data, count, unit->type, root, over);
}

/* Works around Open MPI 4.1.4, whose MPI_Reduce fails if the root's buffer is MPI_BOTTOM. */
int cf_reduce(struct cf_comm *comm, const void *from, void *to, int count,
              const struct cf_unit *unit, MPI_Op op, int root, MPI_Comm over) {
    int rank = 0;

    CF_TRY(lend(comm, &from, count, unit, op));
    if (to != MPI_BOTTOM) {
        return CF_CALL(Reduce, reduce, from, to, count, unit->type, op, root, over);
    }
    CF_TRY(PMPI_Comm_rank(over, &rank));
    if (rank != root) {
        return CF_CALL(Reduce, reduce, from, NULL, count, unit->type, op, root, over);
    }
    void *result = cf_temp(comm, CF_SLOT_RESULT, count, unit);
    CF_TRY_MEMORY(result);
    CF_TRY(CF_CALL(Reduce, reduce, from, result, count, unit->type, op, root, over));
    return cf_copy(comm, to, result, count, unit);
}

int cf_scan(struct cf_comm *comm, const void *from, void *to, int count, const struct cf_unit *unit,
            MPI_Op op, MPI_Comm over) {
    if (from == to) {
        return CF_CALL(Scan, scan, MPI_IN_PLACE, to, count, unit->type, op, over);
    }
    CF_TRY(lend(comm, &from, count, unit, op));
    return CF_CALL(Scan, scan, from, to, count, unit->type, op, over);
}

int cf_exscan(struct cf_comm *comm, const void *from, void *to, int count,
              const struct cf_unit *unit, MPI_Op op, MPI_Comm over) {
    if (from == to) {
        return CF_CALL(Exscan, exscan, MPI_IN_PLACE, to, count, unit->type, op, over);
    }
    CF_TRY(lend(comm, &from, count, unit, op));
    return CF_CALL(Exscan, exscan, from, to, count, unit->type, op, over);
}

int cf_barrier(struct cf_comm *comm, MPI_Comm over) {
    (void)comm;
    return CF_CALL(Barrier, barrier, over);
}
