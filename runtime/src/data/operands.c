/* See operands.h. */
#include "data/operands.h"

#include <limits.h>
#include <string.h>

#include "base/hash.h"
#include "data/facts.h"
#include "data/sizes.h"

static const struct cf_unit byte_unit = {MPI_BYTE, 1, 0, 1, 1, true};

/* ---- the sides of a call --------------------------------------------------------------------- */

static struct cf_side send_side(const struct cf_args *args) {
    return (struct cf_side){(void *)args->sendbuf, args->sendcount,     args->sendcounts,
                            args->sdispls,         args->large_sdispls, args->sendtype};
}

static struct cf_side recv_side(const struct cf_args *args) {
    return (struct cf_side){args->recvbuf, args->recvcount,     args->recvcounts,
                            args->rdispls, args->large_rdispls, args->recvtype};
}

/* Elements in block index, and its displacement in extents. */
static int side_count(const struct cf_side *side, int index) {
    return side->counts == NULL ? side->count : side->counts[index];
}

static MPI_Aint side_begin(const struct cf_side *side, int index) {
    if (side->counts == NULL) {
        return (MPI_Aint)index * side->count;
    }
    return side->large_displs != NULL ? side->large_displs[index] : side->displs[index];
}

/* Whether n blocks from first on are contiguous. */
static bool side_is_tight(const struct cf_side *side, int first, int n) {
    for (int i = first + 1; i < first + n; i++) {
        if (side_begin(side, i) != side_begin(side, i - 1) + side_count(side, i - 1)) {
            return false;
        }
    }
    return true;
}

static void *side_at(const struct cf_side *side, const struct cf_unit *unit, int index) {
    return cf_at(unit, side->buffer, side_begin(side, index));
}

static MPI_Aint side_bytes(const struct cf_side *side, const struct cf_unit *unit, int first,
                           int n) {
    MPI_Aint elements = 0;

    for (int i = first; i < first + n; i++) {
        elements += side_count(side, i);
    }
    return elements * unit->size;
}

/*
 * Sets *staged to n blocks of a side, from first on, as packed bytes. That is the user's memory if
 * the bytes lie so there and *packed is false. Otherwise it is the slot's memory, with a copy if
 * fill is set, and *packed becomes true.
 */
static int stage(struct cf_comm *comm, int slot, const struct cf_side *side, int first, int n,
                 bool fill, void **staged, bool *packed) {
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
    if (*staged == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = first; i < first + n && fill; i++) {
        CF_TRY(cf_pack(side_at(side, &unit, i), side_count(side, i), side->type, *staged, bytes,
                       &position, comm->layout.node_comm));
    }
    return MPI_SUCCESS;
}

/* ---- the sizes of the blocks ----------------------------------------------------------------- */

/* The bytes of one block of a side; negative if the user's arguments are illegal or too large. */
static int block_bytes(const struct cf_side *side, int index) {
    const int64_t size = side->type == MPI_DATATYPE_NULL ? -1 : cf_type_size(side->type);

    if (size < 0 || side_count(side, index) < 0) {
        return -1;
    }
    const int64_t bytes = side_count(side, index) * size;
    return bytes > INT_MAX ? -1 : (int)bytes;
}

static bool side_is_legal(const struct cf_side *side, int n) {
    for (int i = 0; i < n; i++) {
        if (block_bytes(side, i) < 0) {
            return false;
        }
    }
    return true;
}

/*
 * A hash of the block sizes by the other side's arguments, if this rank passes all blocks there.
 * Every rank compares it with the exchanged sizes. MPI demands equal sizes on both sides, but MPI
 * libraries also accept receivers with spare room.
 */
static int hash_of_other_side(const struct cf_roles *roles, const struct cf_side *input,
                              const struct cf_side *output, int size) {
    const struct cf_side *other = roles->varies == CF_VARIES_TARGET ? input : output;
    const int blocks = roles->varies == CF_VARIES_TARGET ? roles->in_blocks : roles->out_blocks;
    uint64_t hash = CF_HASH_BEGIN;

    for (int i = 0; blocks == size && i < size; i++) {
        const int bytes = block_bytes(other, i);
        hash = cf_hash(hash, &bytes, sizeof bytes);
    }
    return (int)(hash & INT_MAX);
}

/* Whether each rank's hash equals that of the exchanged sizes. units: [size][own + 1], each rank's
 * sizes and its hash. */
static bool sides_agree(const int *units, int size, int own, int root) {
    for (int rank = 0; rank < size; rank++) {
        uint64_t hash = CF_HASH_BEGIN;
        if (own == 1 && rank != root) {
            continue;
        }
        for (int i = 0; i < size; i++) {
            const MPI_Aint row = (MPI_Aint)i * (own + 1);
            hash = cf_hash(hash, &units[row + (own == 1 ? 0 : rank)], sizeof *units);
        }
        if (units[(MPI_Aint)rank * (own + 1) + own] != (int)(hash & INT_MAX)) {
            return false;
        }
    }
    return true;
}

/*
 * All ranks exchange the sizes of their blocks: each rank its own block, or its row of pairs. A
 * rank with illegal arguments sends -1. If it left alone, the others would hang.
 */
static int exchange_sizes(struct cf_operands *operands, const struct cf_roles *roles,
                          const struct cf_side *input, const struct cf_side *output,
                          const struct cf_args *args, struct cf_comm *comm) {
    const int size = comm->layout.size;
    const int own = roles->varies == CF_VARIES_PAIR ? size : 1;
    const bool legal =
        side_is_legal(input, roles->in_blocks) && side_is_legal(output, roles->out_blocks);
    int *units = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS,
                           ((size_t)size + 1) * ((size_t)own + 1) * sizeof *units);
    int64_t total = 0;

    if (units == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int *mine = units + (MPI_Aint)size * (own + 1);
    /* The side where this rank has one block; a rank with all blocks there takes its own of them.
     */
    const struct cf_side *side = roles->varies == CF_VARIES_TARGET ? output : input;
    for (int i = 0; i < own; i++) {
        const int index = own == 1 && side->counts != NULL ? comm->layout.rank : i;
        mine[i] = legal ? block_bytes(side, index) : -1;
    }
    mine[own] = hash_of_other_side(roles, input, output, size);
    CF_TRY(PMPI_Allgather(mine, own + 1, MPI_INT, units, own + 1, MPI_INT, args->comm));
    operands->declined = !sides_agree(units, size, own, args->root);
    for (int rank = 0; rank < size; rank++) {
        for (int i = 0; i < own; i++) {
            const int told = units[(MPI_Aint)rank * (own + 1) + i];
            units[(MPI_Aint)rank * own + i] = told;
            total += told;
            operands->declined = operands->declined || told < 0;
        }
    }
    operands->declined = operands->declined || total > CF_MOST_BYTES;
    operands->blocks = (struct cf_blocks){units, 1, 0};
    return MPI_SUCCESS;
}

/* The most bytes that any rank sends or receives, of the blocks of all pairs. */
static int64_t most_of_a_rank(const int *units, int size) {
    int64_t most = 0;

    for (int rank = 0; rank < size; rank++) {
        int64_t sent = 0;
        int64_t received = 0;
        for (int other = 0; other < size; other++) {
            sent += units[(MPI_Aint)rank * size + other];
            received += units[(MPI_Aint)other * size + rank];
        }
        most = sent > most ? sent : most;
        most = received > most ? received : most;
    }
    return most;
}

bool cf_operands_fit(const struct cf_operands *operands, const struct cf_variant *variant,
                     const int *parameter, const struct cf_comm *comm) {
    const int size = comm->layout.size;
    const int *units = operands->blocks.units;
    struct cf_choice choice = {.variant = variant};
    struct cf_facts facts;
    int64_t total = 0;
    int64_t most = 0;

    memcpy(choice.parameter, parameter, (size_t)variant->nparameters * sizeof *parameter);
    for (int rank = 0; rank < size; rank++) {
        total += units[rank];
        most = units[rank] > most ? units[rank] : most;
    }
    if (cf_collectives[variant->collective].varies == CF_VARIES_PAIR) {
        total = most_of_a_rank(units, size);
        most = (total + size - 1) / size;
    }
    cf_facts_fill(&facts, &comm->layout, variant->collective, most, MPI_OP_NULL);
    facts.total_bytes = total;
    return cf_memory_suffices(&choice, &facts);
}

/* Block sizes that every rank was passed: the counts of all blocks, in bytes or elements. */
static int known_sizes(struct cf_operands *operands, const int *counts, struct cf_comm *comm,
                       int size) {
    int *units =
        cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS, (size_t)comm->layout.size * sizeof *units);

    if (units == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < comm->layout.size; i++) {
        units[i] = counts[i] * size;
    }
    operands->blocks = (struct cf_blocks){units, 1, 0};
    return MPI_SUCCESS;
}

static int find_sizes(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_side *input, const struct cf_side *output,
                      const struct cf_side *uniform, const struct cf_args *args,
                      struct cf_comm *comm) {
    if (roles->exchanged) {
        return exchange_sizes(operands, roles, input, output, args, comm);
    }
    const int64_t size = cf_type_size(uniform->type);
    if (size < 0) {
        return MPI_ERR_TYPE;
    }
    if (roles->varies != CF_VARIES_NO) {
        return known_sizes(operands, uniform->counts, comm, (int)size);
    }
    operands->block = uniform->count * (int)size;
    operands->blocks = (struct cf_blocks){NULL, 1, operands->block};
    return MPI_SUCCESS;
}

/* ---- begin and end --------------------------------------------------------------------------- */

/*
 * Fast path for the common case: blocks of equal size and the same predefined dense type on both
 * sides. The variant then works in the user's memory. False for all other calls.
 */
static inline bool begin_plain(struct cf_operands *operands, const struct cf_roles *roles,
                               const struct cf_args *args) {
    const int size = cf_type_dense_size(args->recvtype);

    if (size == 0 || args->sendtype != args->recvtype || args->sendbuf == MPI_IN_PLACE ||
        args->recvbuf == MPI_IN_PLACE || roles->varies != CF_VARIES_NO || roles->exchanged) {
        return false;
    }
    const void *input = roles->single_buffer ? args->recvbuf : args->sendbuf;
    const int block = (roles->send_side ? args->sendcount : args->recvcount) * size;
    *operands = (struct cf_operands){.unit = byte_unit,
                                     .block = block,
                                     .blocks = {NULL, 1, block},
                                     .commutes = true,
                                     .input = roles->in_blocks > 0 ? input : NULL,
                                     .output = roles->out_blocks > 0 ? args->recvbuf : NULL,
                                     .unpack = {.type = MPI_DATATYPE_NULL}};
    return true;
}

/* Nothing may be packed: the other ranks of the node read the hybrid piece itself. */
static int begin_in_piece(struct cf_operands *operands, const struct cf_roles *roles,
                          const struct cf_args *args, struct cf_comm *comm) {
    const int64_t size = cf_type_size(args->recvtype);

    if (size < 0) {
        return MPI_ERR_TYPE;
    }
    operands->input = operands->output = args->recvbuf;
    if (roles->varies != CF_VARIES_NO) {
        return known_sizes(operands, args->recvcounts, comm, (int)size);
    }
    operands->block = args->recvcount * (int)size;
    operands->blocks = (struct cf_blocks){NULL, 1, operands->block};
    return MPI_SUCCESS;
}

/* Where all ranks know the sizes from what they receive, MPI libraries let a rank send less. The
 * rest of its block is then what recvbuf holds there. */
static int fill_up(struct cf_operands *operands, const struct cf_side *send,
                   const struct cf_side *recv, struct cf_comm *comm) {
    const int block = cf_block(&operands->blocks, comm->layout.rank);
    bool packed = true;
    int position = 0;
    void *whole = NULL;

    if (block_bytes(send, 0) >= block) {
        return MPI_SUCCESS;
    }
    CF_TRY(stage(comm, CF_SLOT_INPUT, recv, comm->layout.rank, 1, true, &whole, &packed));
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
    const struct cf_side send = send_side(args);
    const struct cf_side recv = recv_side(args);
    const bool in_place = roles->send_in_place && args->sendbuf == MPI_IN_PLACE;
    const bool stays = roles->recv_in_place && args->recvbuf == MPI_IN_PLACE;
    const struct cf_side *input = in_place || roles->single_buffer ? &recv : &send;
    const struct cf_side *output = stays ? &send : &recv;
    const bool use_send = (roles->send_side && !in_place) || stays;
    void *staged = NULL;
    bool apart = roles->apart && in_place;
    bool packed = false;

    CF_TRY(find_sizes(operands, roles, input, output, use_send ? &send : &recv, args, comm));
    if (operands->declined) {
        return MPI_SUCCESS;
    }
    if (roles->in_blocks > 0) {
        const int first = in_place ? roles->in_place_block : 0;
        CF_TRY(stage(comm, CF_SLOT_INPUT, input, first, roles->in_blocks, true, &staged, &apart));
        operands->input = staged;
        if (input == &send && roles->varies == CF_VARIES_SOURCE && !roles->exchanged) {
            CF_TRY(fill_up(operands, &send, &recv, comm));
        }
    }
    if (roles->out_blocks == 0) {
        return MPI_SUCCESS;
    }
    if (roles->single_buffer && roles->in_blocks > 0) {
        operands->output = staged; /* one buffer for both */
        return MPI_SUCCESS;
    }
    if (stays) {
        const int own = cf_block(&operands->blocks, comm->layout.rank);
        operands->output = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_OUTPUT, (size_t)own);
        return operands->output == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    CF_TRY(stage(comm, CF_SLOT_OUTPUT, output, 0, roles->out_blocks, false, &operands->output,
                 &packed));
    if (packed) {
        operands->unpack = *output;
        operands->unpack_blocks = roles->out_blocks;
    }
    return MPI_SUCCESS;
}

/*
 * Whether a predefined op applies to the type. MPI_Reduce_local reports errors to the handler of
 * MPI_COMM_WORLD. An empty MPI_Allreduce reports them to our own communicator.
 */
static int check_op(struct cf_comm *comm, MPI_Op op, MPI_Datatype type) {
    int nothing[2] = {0, 0};

    if (!cf_op_is_predefined(op)) {
        return MPI_SUCCESS;
    }
    CF_TRY(PMPI_Allreduce(&nothing[0], &nothing[1], 0, type, op, comm->layout.node_comm));
    if (cf_type_is_predefined(type)) {
        comm->legal_op = op;
        comm->legal_type = type;
    }
    return MPI_SUCCESS;
}

/* Replaces the input, which has all blocks, by a copy. */
static int set_apart(struct cf_operands *operands, struct cf_comm *comm) {
    const int units = cf_all_units(&comm->layout, &operands->blocks);
    void *copy = cf_temp(comm, CF_SLOT_INPUT, units, &operands->unit);

    if (copy == NULL) {
        return MPI_ERR_NO_MEM;
    }
    CF_TRY(cf_copy(comm, copy, operands->input, units, &operands->unit));
    operands->input = copy;
    return MPI_SUCCESS;
}

CF_APART static int begin_reduction(struct cf_operands *operands, const struct cf_roles *roles,
                                    const struct cf_args *args, struct cf_comm *comm) {
    const bool in_place = roles->send_in_place && args->sendbuf == MPI_IN_PLACE;
    const bool known = args->op == comm->legal_op && args->recvtype == comm->legal_type;
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
        CF_TRY(known_sizes(operands, args->recvcounts, comm, 1));
    } else {
        operands->block = args->recvcount;
        operands->blocks = (struct cf_blocks){NULL, 1, operands->block};
    }
    return roles->apart && in_place ? set_apart(operands, comm) : MPI_SUCCESS;
}

int cf_operands_begin(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_args *args, struct cf_comm *comm) {
    if (!roles->moves_nothing && !roles->reduces && !roles->in_piece &&
        begin_plain(operands, roles, args)) {
        return MPI_SUCCESS;
    }
    *operands = (struct cf_operands){.unit = byte_unit,
                                     .blocks = {NULL, 1, 0},
                                     .commutes = true,
                                     .unpack = {.type = MPI_DATATYPE_NULL}};
    if (roles->moves_nothing) {
        return MPI_SUCCESS;
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
                         side_count(side, i), side->type, comm->layout.node_comm));
    }
    return MPI_SUCCESS;
}
