#include "placing.h"

#include <limits.h>
#include <stdlib.h>

#include "draw.h"
#include "oracle.h"
#include "report.h"

enum { MAX_GAP = 3 }; /* elements */

/* The kinds of numbers drawn. From PLACES on: two kinds per buffer. */
enum { SIZES = 1 << 20, ORDER, PAIRS, PLACES };

/* Also by count and root, so that the cases of one seed have different empty blocks. */
static uint32_t drawn(const struct problem *problem, uint32_t what, int index) {
    const uint32_t key = mix((uint32_t)problem->count) + (uint32_t)problem->root;
    return draw(problem->seed + key, what, (uint32_t)index);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* The numbers below n in shuffled order. */
static int *shuffled(const struct problem *problem, int n, unsigned what) {
    int *order = xmalloc((size_t)n * sizeof *order);

    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int i = n - 1; i > 0; i--) {
        const int other = (int)(drawn(problem, what, i) % (uint32_t)(i + 1));
        const int moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
    return order;
}

/* Empty in one of four cases, else up to twice the count. */
static int64_t uneven(const struct problem *problem, uint32_t number) {
    return number % 4 == 0 ? 0 : number / 4 % (2 * (uint32_t)problem->count + 1);
}

/* In-place blocks share a buffer, so both directions of a pair have the same size. */
static int64_t uneven_pair(const struct sizes *sizes, int source, int target) {
    const bool swap = sizes->problem->in_place && source > target;
    const int pair = (swap ? target : source) * sizes->ranks + (swap ? source : target);
    return uneven(sizes->problem, drawn(sizes->problem, PAIRS, pair));
}

void sizes_draw(struct sizes *sizes, const struct problem *problem, int ranks) {
    const enum cf_varies varies = cf_collectives[problem->collective].varies;
    int64_t left = (int64_t)problem->count * ranks;

    sizes->problem = problem;
    sizes->ranks = ranks;
    sizes->largest =
        problem->uneven && varies == CF_VARIES_PAIR ? 2 * problem->count : problem->count;
    if (!problem->uneven || varies == CF_VARIES_PAIR) {
        return;
    }
    int *order = shuffled(problem, ranks, ORDER);
    sizes->of_rank = xrealloc(sizes->of_rank, (size_t)ranks * sizeof *sizes->of_rank);
    for (int i = 0; i < ranks; i++) {
        const int64_t wanted = uneven(problem, drawn(problem, SIZES, i));
        const int64_t size = i == ranks - 1 || wanted > left ? left : wanted;
        sizes->of_rank[order[i]] = (int)size;
        sizes->largest = size > sizes->largest ? (int)size : sizes->largest;
        left -= size;
    }
    free(order);
}

int sizes_between(const struct sizes *sizes, int source, int target) {
    const struct problem *problem = sizes->problem;

    if (!problem->uneven) {
        return problem->count;
    }
    switch (cf_collectives[problem->collective].varies) {
    case CF_VARIES_SOURCE:
        return sizes->of_rank[source];
    case CF_VARIES_TARGET:
        return sizes->of_rank[target];
    case CF_VARIES_PAIR:
        return (int)uneven_pair(sizes, source, target);
    default:
        return problem->count;
    }
}

int sizes_of_result(const struct sizes *sizes, int rank, int block) {
    const struct problem *problem = sizes->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];

    return sizes_between(sizes, oracle->first(rank, block, problem->root, sizes->ranks),
                         oracle->source_block(rank, block, problem->root, sizes->ranks));
}

void sizes_free(struct sizes *sizes) {
    free(sizes->of_rank);
    *sizes = (struct sizes){0};
}

/* ---- positions ------------------------------------------------------------------------------ */

void placing_create(struct placing *placing, int blocks) {
    placing->blocks = blocks;
    placing->count = xrealloc(placing->count, (size_t)blocks * sizeof *placing->count);
    placing->at = xrealloc(placing->at, (size_t)blocks * sizeof *placing->at);
}

void placing_lay(struct placing *placing, const struct problem *problem, unsigned scatter) {
    int *order = scatter > 0 ? shuffled(problem, placing->blocks, PLACES + 2 * scatter) : NULL;
    size_t end = 0;

    for (int i = 0; i < placing->blocks; i++) {
        const int block = order == NULL ? i : order[i];
        if (order != NULL) {
            end += drawn(problem, PLACES + 2 * scatter + 1, i) % (MAX_GAP + 1);
        }
        placing->at[block] = end;
        end += (size_t)placing->count[block];
    }
    placing->elements = end;
    free(order);
}

void placing_free(struct placing *placing) {
    free(placing->count);
    free(placing->at);
    *placing = (struct placing){0};
}

bool placing_fits(const struct problem *problem, int64_t count, int ranks) {
    const bool varies = cf_collectives[problem->collective].varies != CF_VARIES_NO;

    if (count <= INT_MAX && varies) {
        count = (2 * count + MAX_GAP) * ranks;
    }
    return count <= INT_MAX / problem->element->odd_types;
}
