/* The user's buffers of a call as units, and back. */
#ifndef COLLFORGE_OPERANDS_H_INCLUDED
#define COLLFORGE_OPERANDS_H_INCLUDED

#include "data/blocks.h"
#include "data/unit.h"

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

#endif
