/*
 * The sizes of a problem's blocks, and their positions in a buffer, in elements.
 *
 * Even blocks have the problem's count and are contiguous. Uneven sizes are drawn from the seed:
 * one of four blocks is empty, the others have up to twice the count. If a size depends on one
 * rank, the last rank of a shuffled order gets the rest of size x count, so that the mean is exact.
 * If the call has displacements, uneven blocks are in shuffled order, with gaps.
 */
#ifndef COLLFORGE_BENCH_PLACING_H_INCLUDED
#define COLLFORGE_BENCH_PLACING_H_INCLUDED

#include "cases.h"

/* The sizes of all blocks of a problem. Zero-initialised; the memory is reused from problem to
 * problem. */
struct sizes {
    const struct problem *problem;
    int ranks;
    int largest;
    int *of_rank; /* [ranks] if the size depends on one rank */
};

/* The positions of the blocks of one buffer. */
struct placing {
    int blocks;      /* 0: the buffer is not significant on this rank */
    int *count;      /* [blocks] */
    size_t *at;      /* [blocks] displacement from the buffer's address */
    size_t elements; /* up to the end of the last block */
};

void sizes_draw(struct sizes *sizes, const struct problem *problem, int ranks);
/* The size of what source sends to target: input block `target` of rank `source`. */
int sizes_between(const struct sizes *sizes, int source, int target);
/* The size of a block of rank's result, which is that of the input blocks combined in it. */
int sizes_of_result(const struct sizes *sizes, int rank, int block);
void sizes_free(struct sizes *sizes);

/* Allocates the blocks. The caller sets count before placing_lay. */
void placing_create(struct placing *placing, int blocks);
/* Sets the positions. scatter: drawn from it and the problem's seed; 0: contiguous. */
void placing_lay(struct placing *placing, const struct problem *problem, unsigned scatter);
void placing_free(struct placing *placing);

/* Whether all counts and displacements fit an int for blocks of this many elements, for any
 * seed. */
bool placing_fits(const struct problem *problem, int64_t count, int ranks);

#endif
