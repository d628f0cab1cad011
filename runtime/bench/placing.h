/*
 * How large the blocks of a problem are, and where they lie in a buffer; all in elements.
 *
 * Even blocks have the problem's count and lie one behind the other. Uneven ones are drawn from the
 * seed: of four blocks one is empty, the others have up to twice the count; where a block's size
 * follows one rank, the last rank of a shuffled order gets what is left of size x count, so that
 * the mean is exact. Where the call has displacements, uneven blocks lie in a shuffled order with
 * gaps between them.
 */
#ifndef COLLFORGE_BENCH_PLACING_H_INCLUDED
#define COLLFORGE_BENCH_PLACING_H_INCLUDED

#include "cases.h"

/* The sizes of all blocks of a problem. Zero-initialised; the memory is kept from problem to
 * problem. */
struct sizes {
    const struct problem *problem;
    int ranks;
    int largest;
    int *of_rank; /* [ranks] where the size follows one rank */
};

/* Where the blocks of one buffer lie. */
struct placing {
    int blocks;      /* 0: the buffer is not significant on this rank */
    int *count;      /* [blocks] */
    size_t *at;      /* [blocks] from the buffer's address */
    size_t elements; /* to the end of the block that lies last */
};

void sizes_draw(struct sizes *sizes, const struct problem *problem, int ranks);
/* The size of what goes from one rank to another: of input block `target` of rank `source`. */
int sizes_between(const struct sizes *sizes, int source, int target);
/* The size of a block of the result on rank: that of the input blocks that it is combined from. */
int sizes_of_result(const struct sizes *sizes, int rank, int block);
void sizes_free(struct sizes *sizes);

/* Makes room for so many blocks, whose counts the caller fills in before it lays them out. */
void placing_create(struct placing *placing, int blocks);
/* scatter: drawn from this number and the problem's seed; 0 for one behind the other. */
void placing_lay(struct placing *placing, const struct problem *problem, unsigned scatter);
void placing_free(struct placing *placing);

/* Whether with blocks of so many elements all counts and displacements are ints, whatever is drawn.
 */
bool placing_fits(const struct problem *problem, int64_t count, int ranks);

#endif
