/* Converts the user's buffers of a call to units, and back. */
#ifndef COLLFORGE_OPERANDS_H_INCLUDED
#define COLLFORGE_OPERANDS_H_INCLUDED

#include "data/blocks.h"
#include "data/side.h"
#include "data/unit.h"

/* What the spec of a collective says about this rank's buffers. */
struct cf_roles {
    bool moves_nothing; /* no buffers at all */
    bool reduces;
    bool in_piece; /* the buffers are hybrid pieces (collforge_hybrid.h) and dense */
    bool single_buffer;
    enum cf_varies varies;
    bool exchanged;     /* the ranks have exchanged the sizes of their blocks (block_sizes.h) */
    bool send_side;     /* the block's bytes come from the send arguments, else from the receive
                           arguments */
    bool send_in_place; /* this rank may pass MPI_IN_PLACE as sendbuf */
    bool recv_in_place; /* this rank may pass MPI_IN_PLACE as recvbuf */
    int in_blocks;      /* blocks this rank contributes; 0: its send arguments are not read */
    int out_blocks;     /* blocks this rank receives; 0: its receive arguments are not read */
    int in_place_block; /* the block of recvbuf with its contribution when in place */
    bool apart;         /* a step writes the output before it has read the whole input */
    bool spare; /* the output is a temporary, because a root may broadcast read-only memory */
};

/*
 * The call in units. input and output are the user's memory where that is dense, else packed
 * copies. They are the same memory where the call is in place and neither is packed, and where one
 * buffer is both, but for `spare`.
 */
struct cf_operands {
    struct cf_unit unit;
    int block;               /* units of the vector, or of one block */
    struct cf_blocks blocks; /* of a collective with blocks */
    bool commutes;           /* whether the op commutes; true without an op */
    const void *input;
    void *output;
    struct cf_side unpack; /* the destination of the packed output; type MPI_DATATYPE_NULL if the
                              output is the user's memory */
    int unpack_blocks;
};

/* Whether MPI_IN_PLACE is passed where MPI does not allow it. Only this rank knows. */
static inline bool cf_in_place_is_illegal(const struct cf_part *part, bool single_buffer,
                                          const struct cf_args *args) {
    const bool reads = part->in_blocks > 0 && !single_buffer;
    const bool writes = part->out_blocks > 0 || single_buffer;
    return (reads && args->sendbuf == MPI_IN_PLACE && !part->send_in_place) ||
           (writes && args->recvbuf == MPI_IN_PLACE && !part->recv_in_place);
}

/* The slow path of cf_operands_end. */
int cf_operands_unpack(const struct cf_operands *operands, struct cf_comm *comm);
/* Fills operands and packs what is not dense. Local. CF_DECLINED for an illegal MPI_IN_PLACE on
 * this rank. */
int cf_operands_begin(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_args *args, struct cf_comm *comm);
/* Unpacks the output into the user's buffer if it was packed. Local. */
static inline int cf_operands_end(const struct cf_operands *operands, struct cf_comm *comm) {
    return operands->unpack.type == MPI_DATATYPE_NULL ? MPI_SUCCESS
                                                      : cf_operands_unpack(operands, comm);
}

#endif
