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

#include "base/cf.h"

#include <string.h>

/* The slots of cf_tmpbufs that the helpers below use; variants number theirs from
 * CF_SLOT_FIRST_FREE. */
enum {
    CF_SLOT_INPUT,
    CF_SLOT_OUTPUT,
    CF_SLOT_PACK,
    CF_SLOT_LANE,
    CF_SLOT_PARTS,
    CF_SLOT_UNITS,
    CF_SLOT_POSITIONS,
    CF_SLOT_OPERAND,
    CF_SLOT_RESULT,
    CF_SLOT_PIPE,
    CF_SLOT_STAGED_SEND,
    CF_SLOT_STAGED_RECV,
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

/* after = before o after; nothing where count is 0, which a user's op need not stand. */
int cf_combine(const void *before, void *after, int count, const struct cf_unit *unit, MPI_Op op);

/* target = source (count units) turned round: its units from first on, then those before. */
int cf_rotate(struct cf_comm *comm, void *target, const void *source, int count, int first,
              const struct cf_unit *unit);

/* MPI_Pack and MPI_Unpack that take MPI_BOTTOM with every MPI library. */
int cf_pack(const void *from, int count, MPI_Datatype type, void *packed, int bytes, int *position,
            MPI_Comm comm);
int cf_unpack(const void *packed, int bytes, int *position, void *to, int count, MPI_Datatype type,
              MPI_Comm comm);

/* ---- blocks ---------------------------------------------------------------------------------- */

/*
 * The units of the blocks of a call: all alike (units == NULL), else one number a rank, or one a
 * pair of ranks at [source * size + target]. Alike on all ranks.
 */
struct cf_blocks {
    const int *units;
    int step; /* from one number to the next */
    int each;
};

static inline int cf_block(const struct cf_blocks *blocks, int index) {
    return blocks->units == NULL ? blocks->each : blocks->units[(MPI_Aint)index * blocks->step];
}

/* Of the blocks of pairs, those that a rank sends, by target; or that it receives, by source. */
static inline struct cf_blocks cf_row(const struct cf_blocks *pairs, int size, int rank) {
    const MPI_Aint first = (MPI_Aint)rank * size;
    return (struct cf_blocks){pairs->units == NULL ? NULL : pairs->units + first, 1, pairs->each};
}

static inline struct cf_blocks cf_column(const struct cf_blocks *pairs, int size, int rank) {
    return (struct cf_blocks){pairs->units == NULL ? NULL : pairs->units + rank, size, pairs->each};
}

static inline int cf_larger(int a, int b) {
    return a > b ? a : b;
}

/* Units of the blocks of these ranks (n of them), or of pairs: of this rank's row or column. */
int cf_units_of(const struct cf_blocks *blocks, const int *ranks, int n);
int cf_all_units(const struct cf_layout *at, const struct cf_blocks *blocks);
/* Of the ranks of a node on a lane; of all ranks on a lane. */
int cf_share_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane, int node,
                   const struct cf_blocks *blocks);
int cf_lane_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                  const struct cf_blocks *blocks);
/* Of the pairs from this node's ranks to the ranks on a lane; from all ranks to this node's share
 * of it. */
int cf_outgoing_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs);
int cf_incoming_units(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                      const struct cf_blocks *pairs);

/* The decomposition into so many lanes, or the most that every node has ranks for (0: these). NULL
 * when memory is out, which only a number not met before on this communicator takes. */
const struct cf_lanes *cf_lanes_of(struct cf_layout *layout, int most);

/* The ranks of a node on a lane, in order: share_size[lane * nodes + node] of them. Those on the
 * whole lane begin with node 0; those of a whole node are on the lane of at->single. */
const int *cf_share_ranks(const struct cf_layout *at, const struct cf_lanes *lanes, int lane,
                          int node);

/* Whether the splits of an exchange of pairs are uniform on all ranks: over a lane, and over a node
 * where each of its ranks has a lane. */
static inline bool cf_is_regular(const struct cf_layout *at, const struct cf_blocks *pairs) {
    return pairs->units == NULL && at->min_node_size == at->max_node_size;
}

/* ---- the call's own buffers ------------------------------------------------------------------ */

/* What the spec of a collective says about this rank's buffers. */
struct cf_roles {
    bool moves_nothing; /* no buffers at all */
    bool reduces;
    bool in_piece; /* the buffers are in pieces of nodes (collforge_hybrid.h) and dense */
    bool single_buffer;
    enum cf_varies varies;
    bool exchanged; /* the sizes of the blocks are not known alike: the ranks tell each other */
    bool send_side; /* the block's bytes come from the send arguments, else from the receive ones */
    bool send_in_place; /* MPI_IN_PLACE may stand in sendbuf on this rank */
    bool recv_in_place; /* MPI_IN_PLACE may stand in recvbuf on this rank */
    int in_blocks;      /* blocks this rank contributes; 0: its send arguments are not read */
    int out_blocks;     /* blocks this rank gets; 0: its receive arguments are not read */
    int in_place_block; /* where in recvbuf its contribution stands when in place */
    bool apart;         /* a step writes the output while it reads all blocks of the input */
};

/* One side of a call as the user gave it: count elements a block, or counts and displs. */
struct cf_side {
    void *buffer;
    int count;
    const int *counts;            /* NULL: count for each */
    const int *displs;            /* in extents */
    const MPI_Aint *large_displs; /* those of a _c function, instead */
    MPI_Datatype type;
};

/*
 * The call in units. input and output are the user's own memory where it is dense, else packed
 * copies. They are the same memory where the call is in place.
 */
struct cf_operands {
    struct cf_unit unit;
    int block;               /* units of the vector, or of one block */
    struct cf_blocks blocks; /* of a collective with blocks */
    bool commutes;           /* the op; true without one */
    bool declined;           /* on all ranks alike: the call is one for native */
    const void *input;
    void *output;
    struct cf_side unpack; /* where the packed output belongs; its type is MPI_DATATYPE_NULL where
                              the output is the user's memory */
    int unpack_blocks;
};

/* What cf_operands_end does where there is something to do. */
int cf_operands_unpack(const struct cf_operands *operands, struct cf_comm *comm);
/* Fills operands and packs what is not dense. Local, but for the exchange of sizes where the roles
 * ask for one. */
int cf_operands_begin(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_args *args, struct cf_comm *comm);
/* Whether a call whose sizes begin has exchanged may have the temporaries that the variant wants
 * (cf_memory_suffices). Alike on all ranks. */
bool cf_operands_fit(const struct cf_operands *operands, const struct cf_variant *variant,
                     const int *parameter, const struct cf_comm *comm);
/* Unpacks the output into the user's buffer where begin said so. Local. */
static inline int cf_operands_end(const struct cf_operands *operands, struct cf_comm *comm) {
    return operands->unpack.type == MPI_DATATYPE_NULL ? MPI_SUCCESS
                                                      : cf_operands_unpack(operands, comm);
}

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
    bool alike;   /* cut as the first count, which is the longest, all parts fall into the same
                     pieces, but that some end earlier */
};

/* Each takes memory from a slot. The member order is that of node_comm (n = ranks of this node) or
 * lane_comm (n = nodes). */
int cf_split_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int units);
/* Each rank of this node: the blocks of the ranks on the lane that it carries. */
int cf_split_lanes(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_lanes *lanes, const struct cf_blocks *blocks);
/* Each node: the blocks of its share of a lane. */
int cf_split_shares(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks);
/* Each rank of this node: its block; all that it sends; all that it receives. */
int cf_split_blocks(struct cf_split *split, struct cf_comm *comm, int slot,
                    const struct cf_blocks *blocks);
int cf_split_rows(struct cf_split *split, struct cf_comm *comm, int slot,
                  const struct cf_blocks *pairs);
int cf_split_columns(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_blocks *pairs);
/* Each rank of this node: what it sends to the ranks on the lane that this rank carries, if any. */
int cf_split_collecting(struct cf_split *split, struct cf_comm *comm, int slot,
                        const struct cf_lanes *lanes, int lane, const struct cf_blocks *pairs);
/* Each node: the blocks from every rank of this node to that node's share of a lane. */
int cf_split_departing(struct cf_split *split, struct cf_comm *comm, int slot,
                       const struct cf_lanes *lanes, int lane, const struct cf_blocks *pairs);
/* Each node: the blocks from every rank of that node to this node's share of a lane. */
int cf_split_arriving(struct cf_split *split, struct cf_comm *comm, int slot,
                      const struct cf_lanes *lanes, int lane, const struct cf_blocks *pairs);
/* Each node: the slice of this lane of its ranks' blocks, cut as one vector; displs are places
 * among all blocks in rank order, and total is that of all. For consecutive placements. */
int cf_split_lane_slices(struct cf_split *split, struct cf_comm *comm, int slot,
                         const struct cf_lanes *lanes, int lane, const struct cf_blocks *blocks);
/* A block for each rank of the communicator: of a row, to send, or of a column, to receive. */
int cf_split_ranks(struct cf_split *split, struct cf_comm *comm, int slot,
                   const struct cf_blocks *blocks);
/* units over n members, the first units % n of them with one more. */
int cf_split_even(struct cf_split *split, struct cf_comm *comm, int slot, int n, int units);
/* Member i of it is member (first + i) % n of another split, which is in another slot. */
int cf_split_rotated(struct cf_split *split, struct cf_comm *comm, int slot,
                     const struct cf_split *other, int first);

/* Units of the members from first to last - 1, which may be none. */
static inline int cf_split_units(const struct cf_split *split, int first, int last) {
    const int begin = first < split->n ? split->displs[first] : split->total;
    return (last < split->n ? split->displs[last] : split->total) - begin;
}

/*
 * ---- component collectives -------------------------------------------------------------------
 *
 * Those of the MPI library, over a node or a lane: regular where the split is uniform, else the v
 * form. shared.h has the same for a node without the last argument, and a variant's own lane
 * algorithms with its parameters in its place.
 */

int cf_scatter(struct cf_comm *comm, const void *from, const struct cf_split *split, void *to,
               const struct cf_unit *unit, int root, MPI_Comm over);
int cf_gather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
              const struct cf_unit *unit, int root, MPI_Comm over);
int cf_allgather(struct cf_comm *comm, const void *from, void *to, const struct cf_split *split,
                 const struct cf_unit *unit, MPI_Comm over);
int cf_alltoall(struct cf_comm *comm, const void *from, const struct cf_split *send, void *to,
                const struct cf_split *receive, const struct cf_unit *unit, bool regular,
                MPI_Comm over);
int cf_bcast(struct cf_comm *comm, void *data, int count, const struct cf_unit *unit, int root,
             MPI_Comm over);
int cf_reduce(struct cf_comm *comm, const void *from, void *to, int count,
              const struct cf_unit *unit, MPI_Op op, int root, MPI_Comm over);
int cf_allreduce(struct cf_comm *comm, const void *from, void *to, int count,
                 const struct cf_unit *unit, MPI_Op op, MPI_Comm over);
int cf_reduce_scatter(struct cf_comm *comm, const void *from, void *to,
                      const struct cf_split *split, const struct cf_unit *unit, MPI_Op op,
                      MPI_Comm over);
/* In place where from == to. */
int cf_scan(struct cf_comm *comm, const void *from, void *to, int count, const struct cf_unit *unit,
            MPI_Op op, MPI_Comm over);
int cf_exscan(struct cf_comm *comm, const void *from, void *to, int count,
              const struct cf_unit *unit, MPI_Op op, MPI_Comm over);
int cf_barrier(struct cf_comm *comm, MPI_Comm over);

/* ---- steps on one node or one rank ----------------------------------------------------------- */

/* The part of each rank of the node to the rank that carries its lane, in node rank order. */
int cf_fold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
            const struct cf_split *parts, const struct cf_unit *unit);
/* The inverse of cf_fold. */
int cf_unfold(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from, void *to,
              const struct cf_split *parts, const struct cf_unit *unit);
/* Empty messages to the ranks whose lane this rank carries; the others wait for theirs. */
int cf_release(struct cf_comm *comm, const struct cf_lanes *lanes);
/* Some ranks of a node: begin to end - 1, as node ranks. */
struct cf_ranks {
    int begin, end;
};
/* Each of some ranks of the node waits for all of others, and sees what these have stored or seen
 * before: by flags where there are such, or by MPI_Barrier, in which all wait for all. All ranks of
 * the node call it. */
int cf_node_wait(struct cf_comm *comm, struct cf_ranks waiting, struct cf_ranks awaited,
                 bool by_barrier);
/* count units from one rank of the node to another; nothing but a copy where they are the same. */
int cf_move(struct cf_comm *comm, int source, int target, const void *from, void *to, int count,
            const struct cf_unit *unit);

/* count units of rank v to the v-th rank in the order of the nodes, and back, on all ranks at once.
 */
int cf_permute_to_node_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit);
int cf_permute_to_rank_order(struct cf_comm *comm, const void *from, void *to, int count,
                             const struct cf_unit *unit);

/* Blocks by rank: to[i] = from[order[i]]. */
int cf_reorder_to_lanes(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* Blocks by rank: to[order[i]] = from[i]. */
int cf_reorder_to_ranks(struct cf_comm *comm, const struct cf_lanes *lanes, const void *from,
                        void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* The blocks of this node's ranks on a lane, or of all ranks on it, out of all blocks in rank
 * order; and back to their places there. */
int cf_collect_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                     void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_collect_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                    void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_place_share(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                   void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
int cf_place_lane(struct cf_comm *comm, const struct cf_lanes *lanes, int lane, const void *from,
                  void *to, const struct cf_blocks *blocks, const struct cf_unit *unit);
/* (source rank of this node, target on the lane by node) -> (target node, source, target). */
int cf_regroup_by_target_node(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, const struct cf_blocks *pairs,
                              const struct cf_unit *unit);
/* (source rank in node order, target in this node's share) -> (target, source). */
int cf_regroup_by_target_rank(struct cf_comm *comm, const struct cf_lanes *lanes, int lane,
                              const void *from, void *to, const struct cf_blocks *pairs,
                              const struct cf_unit *unit);

#endif
