/* See operands.h. */
#include "data/operands.h"

#include "base/coroutine.h"
#include "data/block_sizes.h"
#include "data/facts.h"
#include "data/sizes.h"

static const struct cf_unit byte_unit = {MPI_BYTE, 1, 0, 1, 1, true, 0};

/* ---- the sides of a call --------------------------------------------------------------------- */

/* Whether n blocks from first on are contiguous. */
static bool side_is_tight(const struct cf_side *side, int first, int n) {
    for (int i = first + 1; i < first + n; i++) {
        if (cf_side_begin(side, i) != cf_side_begin(side, i - 1) + cf_side_count(side, i - 1)) {
            return false;
        }
    }
    return true;
}

static void *side_at(const struct cf_side *side, const struct cf_unit *unit, int index) {
    return cf_at(unit, side->buffer, cf_side_begin(side, index));
}

static MPI_Aint side_bytes(const struct cf_side *side, const struct cf_unit *unit, int first,
                           int n) {
    MPI_Aint elements = 0;

    for (int i = first; i < first + n; i++) {
        elements += cf_side_count(side, i);
    }
    return elements * unit->size;
}

/*
 * Sets *staged to n blocks of a side, from first on, as packed bytes. That is the user's memory if
 * the bytes lie so there and *packed is false. Otherwise it is the slot's memory, with a copy if
 * the slot is that of the input, and *packed becomes true.
 */
static int stage(struct cf_comm *comm, int slot, const struct cf_side *side, int first, int n,
                 void **staged, bool *packed) {
    struct cf_unit unit;
    int position = 0;

    CF_TRY(cf_unit_of(side->type, &unit));
    *packed = *packed || !unit.dense || !side_is_tight(side, first, n);
    if (!*packed) {
        *staged = side_at(side, &unit, first);
        return MPI_SUCCESS;
    }
    const int bytes = (int)side_bytes(side, &unit, first, n);
    *staged = cf_tmpbuf(&comm->tmpbufs, slot, (size_t)bytes);
    CF_TRY_MEMORY(*staged);
    for (int i = first; i < first + n && slot == CF_SLOT_INPUT; i++) {
        CF_TRY(cf_pack(side_at(side, &unit, i), cf_side_count(side, i), side->type, *staged, bytes,
                       &position, comm->layout.node_comm));
    }
    return MPI_SUCCESS;
}

/* Sets the operands' blocks to sizes that every rank was passed: the counts of all blocks, each of
 * `size` units. */
static inline int set_blocks(struct cf_operands *operands, const int *counts, struct cf_comm *comm,
                             int size) {
    const int ranks = comm->layout.size;
    int *units = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS, (size_t)ranks * sizeof *units);

    CF_TRY_MEMORY(units);
    for (int i = 0; i < ranks; i++) {
        units[i] = counts[i] * size;
    }
    operands->blocks = (struct cf_blocks){units, 0};
    return MPI_SUCCESS;
}

/* ---- begin and end --------------------------------------------------------------------------- */

/*
 * Fast path for the common case: blocks of equal size and the same predefined dense type on both
 * sides. The variant then works in the user's memory. False for all other calls.
 */
static inline bool begin_plain(struct cf_operands *operands, const struct cf_roles *roles,
                               const struct cf_args *args, struct cf_comm *comm) {
    const int size = cf_type_dense_size(args->recvtype);

    if (size == 0 || args->sendtype != args->recvtype || args->sendbuf == MPI_IN_PLACE ||
        args->recvbuf == MPI_IN_PLACE || roles->varies != CF_VARIES_NO || roles->exchanged) {
        return false;
    }
    const void *input = roles->single_buffer ? args->recvbuf : args->sendbuf;
    const int block = (roles->send_side ? args->sendcount : args->recvcount) * size;
    void *output = roles->out_blocks > 0 ? args->recvbuf : NULL;
    if (roles->spare) {
        output = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_OUTPUT, (size_t)block);
    }
    if (roles->spare && output == NULL) {
        return false;
    }
    *operands = (struct cf_operands){.unit = byte_unit,
                                     .block = block,
                                     .blocks = {NULL, block},
                                     .commutes = true,
                                     .input = roles->in_blocks > 0 ? input : NULL,
                                     .output = output,
                                     .unpack = {.type = MPI_DATATYPE_NULL}};
    return true;
}

/* side: one whose count or counts all ranks know. */
static inline int size_blocks(struct cf_operands *operands, const struct cf_roles *roles,
                              const struct cf_side *side, struct cf_comm *comm) {
    const int64_t size = cf_type_size(side->type);

    if (size < 0) {
        return MPI_ERR_TYPE;
    }
    if (roles->varies != CF_VARIES_NO) {
        return set_blocks(operands, side->counts, comm, (int)size);
    }
    operands->block = side->count * (int)size;
    operands->blocks = (struct cf_blocks){NULL, operands->block};
    return MPI_SUCCESS;
}

/* Nothing may be packed: the other ranks of the node read the hybrid piece itself. */
static int begin_in_piece(struct cf_operands *operands, const struct cf_roles *roles,
                          const struct cf_args *args, struct cf_comm *comm) {
    const struct cf_side recv = cf_recv_side(args);

    operands->input = operands->output = args->recvbuf;
    return size_blocks(operands, roles, &recv, comm);
}

/* Where all ranks know the sizes from what they receive, MPI libraries let a rank send less. The
 * rest of its block is then what recvbuf holds there. */
static int fill_up(struct cf_operands *operands, const struct cf_side *send,
                   const struct cf_side *recv, struct cf_comm *comm) {
    const int rank = comm->layout.rank;
    const int block = cf_block(&operands->blocks, rank);
    const bool alike = send->type == recv->type && send->count == cf_side_count(recv, rank);
    bool packed = true;
    int position = 0;
    void *whole = NULL;

    if (alike || cf_block_bytes(send, 0) >= block) {
        return MPI_SUCCESS;
    }
    CF_TRY(stage(comm, CF_SLOT_INPUT, recv, rank, 1, &whole, &packed));
    operands->input = whole;
    return cf_pack(send->buffer, send->count, send->type, whole, block, &position,
                   comm->layout.node_comm);
}

/*
 * For collectives without an op, which move the packed stream. The two sides may have different
 * types on this rank. Only the sides significant on this rank are read.
 */
CF_APART static int begin_movement(struct cf_operands *operands, const struct cf_roles *roles,
                                   const struct cf_args *args, struct cf_comm *comm) {
    const struct cf_side send = cf_send_side(args);
    const struct cf_side recv = cf_recv_side(args);
    const bool in_place = roles->send_in_place && args->sendbuf == MPI_IN_PLACE;
    const bool stays = roles->recv_in_place && args->recvbuf == MPI_IN_PLACE;
    const struct cf_side *input = in_place || roles->single_buffer ? &recv : &send;
    const struct cf_side *output = stays ? &send : &recv;
    const bool use_send = (roles->send_side && !in_place) || stays;
    void *staged = NULL;
    bool apart = roles->apart && in_place;
    bool packed = false;

    if (roles->exchanged) {
        operands->blocks = (struct cf_blocks){comm->exchanged.units, 0};
    } else {
        CF_TRY(size_blocks(operands, roles, use_send ? &send : &recv, comm));
    }
    if (roles->in_blocks > 0) {
        const int first = in_place ? roles->in_place_block : 0;
        CF_TRY(stage(comm, CF_SLOT_INPUT, input, first, roles->in_blocks, &staged, &apart));
        operands->input = staged;
        if (input == &send && roles->varies == CF_VARIES_SOURCE && !roles->exchanged) {
            CF_TRY(fill_up(operands, &send, &recv, comm));
        }
    }
    if (roles->out_blocks == 0) {
        return MPI_SUCCESS;
    }
    if (roles->single_buffer && roles->in_blocks > 0) {
        const bool spare = roles->spare && !apart;
        operands->output = !spare
                               ? staged /* one buffer for both */
                               : cf_tmpbuf(&comm->tmpbufs, CF_SLOT_OUTPUT, (size_t)operands->block);
        return operands->output == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    if (stays) {
        const int own = cf_block(&operands->blocks, comm->layout.rank);
        operands->output = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_OUTPUT, (size_t)own);
        return operands->output == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    CF_TRY(stage(comm, CF_SLOT_OUTPUT, output, 0, roles->out_blocks, &operands->output, &packed));
    if (packed) {
        operands->unpack = *output;
        operands->unpack_blocks = roles->out_blocks;
    }
    return MPI_SUCCESS;
}

/* Whether a predefined op applies to the type. Known to this rank alone: ranks may describe one
 * signature by different types. */
static int check_op(struct cf_comm *comm, MPI_Op op, MPI_Datatype type) {
    if (!cf_op_is_predefined(op)) {
        return MPI_SUCCESS;
    }
    CF_TRY(cf_op_check(op, type));
    if (cf_type_is_predefined(type)) {
        comm->legal_op = op;
        comm->legal_type = type;
    }
    return MPI_SUCCESS;
}

CF_APART static int begin_reduction(struct cf_operands *operands, const struct cf_roles *roles,
                                    const struct cf_args *args, struct cf_comm *comm) {
    const bool in_place = roles->send_in_place && args->sendbuf == MPI_IN_PLACE;
    /* A start has checked the op, which is predefined. Here, in a coroutine, the library's lock may
     * be held, which cf_op_check takes in another order. */
    const bool known =
        (args->op == comm->legal_op && args->recvtype == comm->legal_type) || !cf_may_block();
    int commutes = true;

    if (!known) {
        CF_TRY(check_op(comm, args->op, args->recvtype));
        CF_TRY(cf_op_commutes(args->op, &commutes));
    }
    operands->input = in_place ? args->recvbuf : args->sendbuf;
    operands->output = roles->out_blocks > 0 ? args->recvbuf : NULL;
    operands->commutes = commutes;
    CF_TRY(cf_unit_of(args->recvtype, &operands->unit));
    if (roles->varies != CF_VARIES_NO) {
        CF_TRY(set_blocks(operands, args->recvcounts, comm, 1));
    } else {
        operands->block = args->recvcount;
        operands->blocks = (struct cf_blocks){NULL, operands->block};
    }
    return roles->apart && in_place
               ? cf_copy_apart(comm, CF_SLOT_INPUT, &operands->input,
                               cf_all_units(&comm->layout, &operands->blocks), &operands->unit)
               : MPI_SUCCESS;
}

static inline bool in_place_is_illegal(const struct cf_roles *roles, const struct cf_args *args) {
    if (args->sendbuf != MPI_IN_PLACE && args->recvbuf != MPI_IN_PLACE) {
        return false;
    }
    const struct cf_part part = {.in_blocks = roles->in_blocks,
                                 .out_blocks = roles->out_blocks,
                                 .send_in_place = roles->send_in_place,
                                 .recv_in_place = roles->recv_in_place};
    return cf_in_place_is_illegal(&part, roles->single_buffer, args);
}

int cf_operands_begin(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_args *args, struct cf_comm *comm) {
    if (!roles->moves_nothing && !roles->reduces && !roles->in_piece &&
        begin_plain(operands, roles, args, comm)) {
        return MPI_SUCCESS;
    }
    *operands = (struct cf_operands){.unit = byte_unit,
                                     .blocks = {NULL, 0},
                                     .commutes = true,
                                     .unpack = {.type = MPI_DATATYPE_NULL}};
    if (roles->moves_nothing) {
        return MPI_SUCCESS;
    }
    if (!roles->exchanged && !roles->in_piece && in_place_is_illegal(roles, args)) {
        return CF_DECLINED; /* the MPI library reports it */
    }
    return roles->reduces    ? begin_reduction(operands, roles, args, comm)
           : roles->in_piece ? begin_in_piece(operands, roles, args, comm)
                             : begin_movement(operands, roles, args, comm);
}

int cf_operands_unpack(const struct cf_operands *operands, struct cf_comm *comm) {
    const struct cf_side *side = &operands->unpack;
    struct cf_unit unit;
    int position = 0;

    CF_TRY(cf_unit_of(side->type, &unit));
    const int bytes = (int)side_bytes(side, &unit, 0, operands->unpack_blocks);
    for (int i = 0; i < operands->unpack_blocks; i++) {
        CF_TRY(cf_unpack(operands->output, bytes, &position, side_at(side, &unit, i),
                         cf_side_count(side, i), side->type, comm->layout.node_comm));
    }
    return MPI_SUCCESS;
}
