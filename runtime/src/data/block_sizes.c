#include "data/block_sizes.h"

#include <limits.h>

#include "base/coroutine.h"
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

/* Sums of these over a call's blocks differ if one block does. index: that of a rank or a pair. */
static inline uint64_t hash_of_block(uint64_t index, int bytes) {
    uint64_t hash = CF_HASH_BEGIN + (index << 31 | (uint32_t)bytes);
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* splitmix64 */
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

/* Whether no temporary can exceed the limit of memory: none has more than all blocks. */
static bool is_few(int64_t all) {
    return all <= CF_MOST_BYTES && all <= cf_runtime.memory / CF_TMPBUF_SLOTS;
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

/* ---- a block of each rank -------------------------------------------------------------------- */

/*
 * Each rank tells its block's size. The root, which passes the sizes of all blocks, tells a hash of
 * them: MPI demands equal sizes on both sides, but MPI libraries also accept receivers with spare
 * room.
 */
static int exchange_blocks(struct cf_comm *comm, const struct own *share, bool legal,
                           const struct cf_args *args) {
    const int size = comm->layout.size;
    int *told = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS, 2 * (size_t)size * sizeof *told);
    uint64_t hash = 0;
    int64_t all = 0;
    int largest = 0;
    int least = 0;

    CF_TRY_MEMORY(told);
    for (int i = 0; i < size && share->other_blocks == size; i++) {
        hash += hash_of_block((uint64_t)i, block_bytes(&share->other, share->other_element, i));
    }
    const int at = own_index(share, comm->layout.rank, 0);
    const int own = legal ? block_bytes(&share->side, share->element, at) : -1;
    const int mine[] = {own, (int)(hash & INT_MAX)};
    CF_TRY(CF_CALL(Allgather, allgather, mine, 2, MPI_INT, told, 2, MPI_INT, args->comm));
    const int hash_of_root = told[2 * (MPI_Aint)args->root + 1];
    hash = 0;
    for (int rank = 0; rank < size; rank++) {
        told[rank] = told[2 * (MPI_Aint)rank];
        hash += hash_of_block((uint64_t)rank, told[rank]);
        all += told[rank];
        largest = told[rank] > largest ? told[rank] : largest;
        least = told[rank] < least ? told[rank] : least;
    }
    if (hash_of_root != (int)(hash & INT_MAX) || least < 0 || all > CF_MOST_BYTES) {
        return CF_DECLINED;
    }
    comm->exchanged = (struct cf_exchanged){.units = told,
                                            .mean = (all + size - 1) / size,
                                            .largest = largest,
                                            .total = all,
                                            .few = is_few(all)};
    return MPI_SUCCESS;
}

/* ---- a block of each pair -------------------------------------------------------------------- */

/* Sums over all ranks, in one MPI_Allreduce. They wrap around. DIFFERENCES is 0 if the sides of all
 * blocks are equal and legal. */
enum { BYTES, DIFFERENCES, SUMS };

/* Stores the sizes of this rank's blocks: of those that it sends, then of those that it receives.
 * Adds up what it tells the others. Returns the bytes of the larger side. */
static int64_t tell(const struct own *share, int size, int rank, int *units, uint64_t sums[SUMS]) {
    int64_t sent = 0;
    int64_t received = 0;

    for (int i = 0; i < size; i++) {
        units[i] = block_bytes(&share->side, share->element, i);
        units[size + i] = block_bytes(&share->other, share->other_element, i);
        sums[DIFFERENCES] += hash_of_block((uint64_t)rank * (uint64_t)size + (uint64_t)i, units[i]);
        sums[DIFFERENCES] -=
            hash_of_block((uint64_t)i * (uint64_t)size + (uint64_t)rank, units[size + i]);
        sent += units[i];
        received += units[size + i];
    }
    sums[BYTES] = (uint64_t)sent;
    return sent > received ? sent : received;
}

/*
 * Predefined ops on predefined types are what MPI libraries reduce best; none has both sums and
 * maxima. The one maximum, of the bytes of a rank, is only needed where all blocks together exceed
 * the limit of memory, which all ranks then know: nearly always among a thousand ranks.
 */
static int exchange_pairs(struct cf_comm *comm, const struct own *share, bool legal,
                          const struct cf_args *args) {
    const int size = comm->layout.size;
    int *units = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_UNITS, 2 * (size_t)size * sizeof *units);
    uint64_t sums[SUMS] = {0};
    int64_t most = 0;

    CF_TRY_MEMORY(units);
    if (legal) {
        most = tell(share, size, comm->layout.rank, units, sums);
    }
    sums[DIFFERENCES] += !legal || most > CF_MOST_BYTES;
    CF_TRY(
        CF_CALL(Allreduce, allreduce, MPI_IN_PLACE, sums, SUMS, MPI_UINT64_T, MPI_SUM, args->comm));
    if (sums[DIFFERENCES] != 0) {
        return CF_DECLINED;
    }
    const int64_t all = (int64_t)sums[BYTES];
    const bool few = is_few(all);
    if (few) {
        most = all;
    } else {
        CF_TRY(CF_CALL(Allreduce, allreduce, MPI_IN_PLACE, &most, 1, MPI_INT64_T, MPI_MAX,
                       args->comm));
    }
    /* A carrier has at most what its node's ranks have. */
    if (all > CF_MOST_BYTES && most * comm->layout.max_node_size > CF_MOST_BYTES) {
        return CF_DECLINED;
    }
    const int64_t pairs = (int64_t)size * size;
    comm->exchanged = (struct cf_exchanged){.units = units,
                                            .mean = (all + pairs - 1) / pairs,
                                            .largest = (most + size - 1) / size,
                                            .total = most,
                                            .few = few};
    return MPI_SUCCESS;
}

int cf_exchange_sizes(struct cf_comm *comm, int collective, const struct cf_args *args) {
    const struct own share = own_of(&comm->layout, collective, args);
    const bool legal = side_is_legal(&share.side, share.element, share.side_blocks) &&
                       side_is_legal(&share.other, share.other_element, share.other_blocks);

    return cf_collectives[collective].varies == CF_VARIES_PAIR
               ? exchange_pairs(comm, &share, legal, args)
               : exchange_blocks(comm, &share, legal, args);
}
