#include "data/block_sizes.h"

#include <limits.h>
#include <string.h>

#include "base/hash.h"
#include "data/facts.h"
#include "data/sizes.h"

/* The bytes of an element of a side; negative if its type is illegal. */
static int64_t element_bytes(const struct cf_side *side) {
    return side->type == MPI_DATATYPE_NULL ? -1 : cf_type_size(side->type);
}

static inline int block_bytes(const struct cf_side *side, int64_t element, int index) {
    const int count = cf_side_count(side, index);
    return element < 0 || count < 0 || count * element > INT_MAX ? -1 : (int)(count * element);
}

int cf_block_bytes(const struct cf_side *side, int index) {
    return block_bytes(side, element_bytes(side), index);
}

/* The side of a contribution in place is that of the result. */
static bool side_is_legal(const struct cf_side *side, int64_t element, int n) {
    if (n > 0 && side->buffer == MPI_IN_PLACE) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (block_bytes(side, element, i) < 0) {
            return false;
        }
    }
    return true;
}

/* Continues a hash with one size. It takes one multiplication where cf_hash takes four. */
static inline uint64_t hash_size(uint64_t hash, int bytes) {
    hash = (hash ^ (uint32_t)bytes) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/*
 * A hash of the first n block sizes of the side where this rank passes all blocks. Every rank
 * compares it with the exchanged sizes. MPI demands equal sizes on both sides, but MPI libraries
 * also accept receivers with spare room.
 */
static int hash_of_blocks(const struct cf_side *side, int64_t element, int n) {
    uint64_t hash = CF_HASH_BEGIN;

    for (int i = 0; i < n; i++) {
        hash = hash_size(hash, block_bytes(side, element, i));
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
            hash = hash_size(hash, units[row + (own == 1 ? 0 : rank)]);
        }
        if (units[(MPI_Aint)rank * (own + 1) + own] != (int)(hash & INT_MAX)) {
            return false;
        }
    }
    return true;
}

int cf_exchange_sizes(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_side *input, const struct cf_side *output,
                      const struct cf_args *args, struct cf_comm *comm) {
    const int size = comm->layout.size;
    const int own = roles->varies == CF_VARIES_PAIR ? size : 1;
    const bool to_target = roles->varies == CF_VARIES_TARGET;
    /* The side where this rank has one block, or its row of pairs; and the other one. */
    const struct cf_side *side = to_target ? output : input;
    const struct cf_side *other = to_target ? input : output;
    const int side_blocks = to_target ? roles->out_blocks : roles->in_blocks;
    const int other_blocks = to_target ? roles->in_blocks : roles->out_blocks;
    const int64_t element = element_bytes(side);
    const int64_t other_element = other_blocks == 0 ? -1 : element_bytes(other);
    const bool legal = side_is_legal(side, element, side_blocks) &&
                       side_is_legal(other, other_element, other_blocks);
    int *units = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS,
                           ((size_t)size + 1) * ((size_t)own + 1) * sizeof *units);
    int64_t total = 0;

    if (units == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int *mine = units + (MPI_Aint)size * (own + 1);
    for (int i = 0; i < own; i++) {
        /* A rank with all blocks on this side takes its own of them. */
        const int index = own == 1 && side->counts != NULL ? comm->layout.rank : i;
        mine[i] = legal ? block_bytes(side, element, index) : -1;
    }
    mine[own] = hash_of_blocks(other, other_element, other_blocks == size ? size : 0);
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
    operands->total = total;
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
    /* No temporary has more than all blocks. */
    if (operands->total <= cf_runtime.memory / CF_TMPBUF_SLOTS) {
        return true;
    }
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
