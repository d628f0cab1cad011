/* The sizes of a call's blocks, which all ranks must know before one chooses a path. */
#ifndef COLLFORGE_BLOCK_SIZES_H_INCLUDED
#define COLLFORGE_BLOCK_SIZES_H_INCLUDED

#include "data/operands.h"

/* The bytes of one block of a side; negative if the user's arguments are illegal or too large. */
int cf_block_bytes(const struct cf_side *side, int index);
/* Sets the operands' blocks to sizes that every rank was passed: the counts of all blocks, each of
 * `size` units. */
int cf_known_sizes(struct cf_operands *operands, const int *counts, struct cf_comm *comm, int size);
/*
 * Sets the operands' blocks, and declined. Collective if roles->exchanged. uniform: the side whose
 * count or counts all ranks know otherwise.
 */
int cf_find_sizes(struct cf_operands *operands, const struct cf_roles *roles,
                  const struct cf_side *input, const struct cf_side *output,
                  const struct cf_side *uniform, const struct cf_args *args, struct cf_comm *comm);
/* For a call whose sizes were exchanged by cf_operands_begin: whether the variant's temporaries are
 * allowed (cf_memory_suffices). Equal on all ranks. */
bool cf_operands_fit(const struct cf_operands *operands, const struct cf_variant *variant,
                     const int *parameter, const struct cf_comm *comm);

#endif
