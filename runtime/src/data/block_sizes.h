/* The sizes of a call's blocks, which all ranks must know before one chooses a path. */
#ifndef COLLFORGE_BLOCK_SIZES_H_INCLUDED
#define COLLFORGE_BLOCK_SIZES_H_INCLUDED

#include "data/operands.h"

/* The bytes of one block of a side; negative if the user's arguments are illegal or too large. */
int cf_block_bytes(const struct cf_side *side, int index);
/*
 * Sets the operands' blocks, and declined. All ranks exchange the sizes of their blocks: each rank
 * its own block, or its row of pairs. A rank with illegal arguments sends -1. If it left alone, the
 * others would hang.
 */
int cf_exchange_sizes(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_side *input, const struct cf_side *output,
                      const struct cf_args *args, struct cf_comm *comm);
/* For a call whose sizes were exchanged by cf_exchange_sizes: whether the variant's temporaries are
 * allowed (cf_memory_suffices). Equal on all ranks. */
bool cf_operands_fit(const struct cf_operands *operands, const struct cf_variant *variant,
                     const int *parameter, const struct cf_comm *comm);

#endif
