/*
 * The one header of the generated variants: the units a composition moves, its splits and
 * temporaries, and the steps that are not a plain component collective.
 *
 * Collectives without an op move bytes of the packed stream, because ranks may describe one
 * signature by different counts and datatypes; reductions move elements of the call's datatype.
 * Either way a variant sees units: MPI_BYTE or the user's type.
 */
#ifndef COLLFORGE_VARIANT_H_INCLUDED
#define COLLFORGE_VARIANT_H_INCLUDED

#include "cf.h"

#include <string.h>

/* The slots of cf_tmpbufs that the helpers below use; variants number theirs from
 * CF_SLOT_FIRST_FREE. */
enum {
    CF_SLOT_INPUT,
    CF_SLOT_OUTPUT,
    CF_SLOT_PACK,
    CF_SLOT_LANE,
    CF_SLOT_PARTS,
    CF_SLOT_OWN,
    CF_SLOT_FIRST_FREE
};

/* Leaves a step of a variant with the error of a call. Temporaries stay with the communicator:
 * there is nothing to free. */
#define CF_TRY(call)                                                                               \
    do {                                                                                           \
        const int cf_try_error = (call);                                                           \
        if (cf_try_error != MPI_SUCCESS) {                                                         \
            return cf_try_error;                                                                   \
        }                                                                                          \
    } while (0)

/* ---- units ----------------------------------------------------------------------------------- */

struct cf_unit {
    MPI_Datatype type;
    MPI_Aint extent;
    MPI_Aint true_lb;
    MPI_Aint true_extent;
    int size;   /* bytes of the packed element */
    bool dense; /* n units are n * size contiguous bytes, in signature order */
};

int cf_unit_of(MPI_Datatype type, struct cf_unit *unit);

static inline void *cf_at(const struct cf_unit *unit, const void *buffer, MPI_Aint index) {
    return (char *)buffer + index * unit->extent;
}

/* Room for count units in a slot, as a buffer to pass to MPI (shifted by the lower bound); NULL
 * when memory is out. */
void *cf_temp(struct cf_comm *comm, int slot, MPI_Aint count, const struct cf_unit *unit);

/* Copies count units; nothing where target == source. */
int cf_copy(struct cf_comm *comm, void *target, const void *source, int count,
            const struct cf_unit *unit);

/* ---- segments of a pipeline ------------------------------------------------------------------ */

/* Units in a segment of about this many bytes: at least one. */
static inline int cf_segment_units(int segment_bytes, const struct cf_unit *unit) {
    const int units = unit->size > 0 ? segment_bytes / unit->size : 1;
    return units > 0 ? units : 1;
}

static inline int cf_segments(int count, int segment) {
    return count / segment + (count % segment != 0);
}

/* Units of segment number index. */
static inline int cf_segment_count(int index, int segment, int count) {
    const int rest = count - index * segment;
    return rest < segment ? rest : segment;
}

static inline void cf_requests_clear(MPI_Request *requests, int n) {
    for (int i = 0; i < n; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
}

/* Waits for all of them, one by one. */
static inline int cf_requests_wait(MPI_Request *requests, int n) {
    int err = MPI_SUCCESS;
    for (int i = 0; i < n && err == MPI_SUCCESS; i++) {
        err = PMPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    return err;
}

/* ---- the call's own buffers ------------------------------------------------------------------ */

/* What the spec of a collective says about this rank's buffers. */
struct cf_roles {
    bool reduces;
    bool single_buffer;
    bool send_side; /* the block's bytes come from the send arguments, else from the receive ones */
    bool send_in_place; /* MPI_IN_PLACE may stand in sendbuf on this rank */
    bool recv_in_place; /* MPI_IN_PLACE may stand in recvbuf on this rank */
    int in_blocks;      /* blocks this rank contributes; 0: its send arguments are not read */
    int out_blocks;     /* blocks this rank gets; 0: its receive arguments are not read */
    int in_place_block; /* where in recvbuf its contribution stands when in place */
};

/*
 * The call in units. input and output are the user's own memory where it is dense, else packed
 * copies. They are the same memory where the call is in place.
 */
struct cf_operands {
    struct cf_unit unit;
    int block; /* units of one block */
    const void *input;
    void *output;
    bool unpack; /* output is a packed copy, to be unpacked into recvbuf */
};

/* Fills operands and packs what is not dense. Local. */
int cf_operands_begin(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_args *args, struct cf_comm *comm);
/* Unpacks the output into the user's buffer where begin said so. Local. */
int cf_operands_end(const struct cf_operands *operands, const struct cf_roles *roles,
                    const struct cf_args *args, struct cf_comm *comm);

/* ---- splits
 * --------------------------------------------------------------------------------------------------
 */

/* How the units of a buffer belong to the members of a communicator, in member order. */
struct cf_split {
    int n;
    int *counts;
    int *displs;
    int total;
    bool uniform; /* all counts are equal: alike on all members, so the regular collective may be
                     used */
};

/* Each takes memory from a slot. The member order is that of node_comm (n = ranks of this node) or
 * lane_comm (n = nodes). */
int cf_split_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int units);
int cf_split_lanes(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_lanes *lanes, int block);
int cf_split_shares(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int lane, int block);
/* The blocks from every rank of this node to the share of each node on a lane. */
int cf_split_departing(struct cf_split *split, struct cf_comm *comm, int slot,
                       const struct cf_lanes *lanes, int lane, int block);
/* The blocks from every rank of each node to this node's share of a lane. */
int cf_split_arriving(struct cf_split *split, struct cf_comm *comm, int slot,
                      const struct cf_lanes *lanes, int lane, int block);
/* units over n members, the first units % n of them with one more. */
int cf_split_even(struct cf_split *split, struct cf_comm *comm, int slot, int n, int units);
int cf_split_uniform(struct cf_split *split, struct cf_comm *comm, int slot, int n, int count);

/* ---- component collectives: regular where the split is uniform, else the v form -------------- */

int cf_scatter(const void *from, const struct cf_split *split, void *to, const struct cf_unit *unit,
               int root, MPI_Comm comm);
int cf_gather(const void *from, void *to, const struct cf_split *split, const struct cf_unit *unit,
              int root, MPI_Comm comm);
int cf_allgather(const void *from, void *to, const struct cf_split *split,
                 const struct cf_unit *unit, MPI_Comm comm);
int cf_alltoall(const void *from, const struct cf_split *send, void *to,
                const struct cf_split *receive, const struct cf_unit *unit,
                const struct cf_layout *at, MPI_Comm comm);
int cf_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                      const struct cf_split *split, const struct cf_unit *unit, MPI_Op op,
                      MPI_Comm over);

/* ---- steps on one node or one rank ----------------------------------------------------------- */

/* count units from each rank of the node to the rank that carries its lane, in node rank order. */
int cf_fold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
            int count, const struct cf_unit *unit);
/* The inverse of cf_fold. */
int cf_unfold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
              int count, const struct cf_unit *unit);
/* count units from one rank of the node to another; nothing but a copy where they are the same. */
int cf_move(struct cf_comm *comm, int source, int target, const void *from, void *to, int count,
            const struct cf_unit *unit);

/* Blocks of count units: to[i] = from[order[i]]. */
int cf_reorder_to_lanes(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, int count, const struct cf_unit *unit);
/* Blocks of count units: to[order[i]] = from[i]. */
int cf_reorder_to_ranks(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, int count, const struct cf_unit *unit);
/* (source rank of this node, target on the lane by node) -> (target node, source, target); blocks
 * of count units. */
int cf_regroup_by_target_node(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, int count, const struct cf_unit *unit);
/* (source rank in node order, target in this node's share) -> (target, source); blocks of count
 * units. */
int cf_regroup_by_target_rank(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, int count, const struct cf_unit *unit);

#endif
