/* The sizes of a call's blocks, which all ranks must know before one chooses a path. */
#ifndef COLLFORGE_BLOCK_SIZES_H_INCLUDED
#define COLLFORGE_BLOCK_SIZES_H_INCLUDED

#include "data/side.h"

/* The bytes of one block of a side; negative if the user's arguments are illegal or too large. */
int cf_block_bytes(const struct cf_side *side, int index);
/* The mean bytes of this rank's own blocks. Local; 0 if its arguments are illegal. */
double cf_own_mean(const struct cf_layout *layout, int collective, const struct cf_args *args);
/*
 * Sets comm->exchanged, and with it what cf_operands_begin takes for the sizes. If there is a block
 * for each rank, all ranks exchange these sizes. If there is one for each pair, they add up what a
 * choice reads, and each keeps the sizes of its own blocks (pairs.h exchanges the others).
 * CF_DECLINED, on all ranks, if one has illegal arguments or the two sides differ: a rank that left
 * alone would make the others hang. Else an MPI error class.
 */
int cf_exchange_sizes(struct cf_comm *comm, int collective, const struct cf_args *args);

#endif
