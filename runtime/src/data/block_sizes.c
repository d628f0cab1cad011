#include "data/block_sizes.h"

#include <limits.h>

#include "base/hash.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "data/tmpbuf.h"

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
    if ((n > 0 && side->buffer == MPI_IN_PLACE) || (n > 1 && side->counts == NULL)) {
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

/* From the bytes of all ranks' blocks, and of the largest one. */
static void sum_up(struct cf_exchanged *found, int64_t all, int64_t largest, int size, bool pairs) {
    const int64_t blocks = pairs ? (int64_t)size * size : size;

    found->mean = (all + blocks - 1) / blocks;
    found->largest = largest;
    found->total = all;
    /* No temporary has more than all blocks. */
    found->few = all <= cf_runtime.memory / CF_TMPBUF_SLOTS;
    if (pairs && !found->few) {
        found->total = most_of_a_rank(found->units, size);
        found->largest = (found->total + size - 1) / size;
    }
}

/* The side where this rank has its own block, or its row of pairs; and the other one. */
struct own {
    struct cf_side side, other;
    int side_blocks, other_blocks;
    int64_t element, other_element; /* bytes; negative if illegal */
    int blocks;                     /* that are this rank's own */
};

static struct own own_of(const struct cf_layout *layout, int collective,
                         const struct cf_args *args) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    const struct cf_part part = info->part(layout->rank, args->root, layout->size);
    const struct cf_side send = cf_send_side(args);
    const struct cf_side recv = cf_recv_side(args);
    const struct cf_side input = part.send_in_place && send.buffer == MPI_IN_PLACE ? recv : send;
    const struct cf_side output = part.recv_in_place && recv.buffer == MPI_IN_PLACE ? send : recv;
    const bool to_target = info->varies == CF_VARIES_TARGET;
    struct own own = {.side = to_target ? output : input,
                      .other = to_target ? input : output,
                      .side_blocks = to_target ? part.out_blocks : part.in_blocks,
                      .other_blocks = to_target ? part.in_blocks : part.out_blocks,
                      .blocks = info->varies == CF_VARIES_PAIR ? layout->size : 1};
    own.element = element_bytes(&own.side);
    own.other_element = own.other_blocks == 0 ? -1 : element_bytes(&own.other);
    return own;
}

/* A rank with all blocks on this side takes its own of them. */
static int own_index(const struct own *own, int rank, int i) {
    return own->blocks == 1 && own->side.counts != NULL ? rank : i;
}

static int own_block(const struct own *own, int rank, int i) {
    return block_bytes(&own->side, own->element, own_index(own, rank, i));
}

double cf_own_mean(const struct cf_layout *layout, int collective, const struct cf_args *args) {
    const struct own own = own_of(layout, collective, args);
    double bytes = 0;

    if (own.side.buffer == MPI_IN_PLACE || own.element < 0) {
        return 0;
    }
    for (int i = 0; i < own.blocks; i++) {
        const int count = cf_side_count(&own.side, own_index(&own, layout->rank, i));
        if (count < 0) {
            return 0;
        }
        bytes += (double)count * (double)own.element; /* may be too large for a variant */
    }
    return bytes / own.blocks;
}

int cf_exchange_sizes(struct cf_comm *comm, int collective, const struct cf_args *args) {
    const int size = comm->layout.size;
    const struct own share = own_of(&comm->layout, collective, args);
    const int own = share.blocks;
    const bool legal = side_is_legal(&share.side, share.element, share.side_blocks) &&
                       side_is_legal(&share.other, share.other_element, share.other_blocks);
    int *units = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS,
                           ((size_t)size + 1) * ((size_t)own + 1) * sizeof *units);
    int64_t all = 0;
    int largest = 0;
    int least = 0;

    CF_TRY_MEMORY(units);
    int *mine = units + (MPI_Aint)size * (own + 1);
    for (int i = 0; i < own; i++) {
        mine[i] = legal ? own_block(&share, comm->layout.rank, i) : -1;
    }
    mine[own] =
        hash_of_blocks(&share.other, share.other_element, share.other_blocks == size ? size : 0);
    CF_TRY(PMPI_Allgather(mine, own + 1, MPI_INT, units, own + 1, MPI_INT, args->comm));
    const bool agree = sides_agree(units, size, own, args->root);
    for (int rank = 0; rank < size; rank++) {
        for (int i = 0; i < own; i++) {
            const int told = units[(MPI_Aint)rank * (own + 1) + i];
            units[(MPI_Aint)rank * own + i] = told;
            all += told;
            largest = told > largest ? told : largest;
            least = told < least ? told : least;
        }
    }
    if (!agree || least < 0 || all > CF_MOST_BYTES) {
        return CF_DECLINED;
    }
    comm->exchanged.units = units;
    sum_up(&comm->exchanged, all, largest, size,
           cf_collectives[collective].varies == CF_VARIES_PAIR);
    return MPI_SUCCESS;
}
