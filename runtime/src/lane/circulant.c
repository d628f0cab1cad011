/*
 * The base block of a position is the block of the first phase that it receives in that phase: the
 * last k of the skips that lead from the root to it, if each of them is the largest that is not too
 * far. Example for n = 5, skips 1, 2, 3, 5: from the root 3 and 1 lead to position 4, whose base
 * block is number 0, which the root sends to 1 in round 0, and 1 to 4 in round 2.
 *
 * In round k a position p receives the base block, of the phase before or this one, of a position
 * at or before p - skip[k], which has it by then: of the nearest one whose base block p does not
 * get otherwise. Base blocks of the phase before are 1 - rounds and so on; the root's of this one
 * is what p gets as its own.
 */
#include "lane/circulant.h"

#include <limits.h>
#include <stdbool.h>

void cf_circle_of(struct cf_circle *circle, int n) {
    circle->n = n;
    circle->rounds = 0;
    while ((n - 1) >> circle->rounds > 0) {
        circle->rounds++;
    }
    for (int k = 0; k <= circle->rounds; k++) {
        circle->skip[k] = ((n - 1) >> (circle->rounds - k)) + 1;
    }
}

/* `rounds` for the root. */
static int base_block(const struct cf_circle *circle, int position) {
    int k = circle->rounds;

    while (position > 0) {
        k--;
        if (circle->skip[k] <= position) {
            position -= circle->skip[k];
        }
    }
    return k;
}

/* The search for the base blocks that a position receives, from round 0 on. Positions count on from
 * the turn of the circle before, so that `position` is at least n. */
struct search {
    const struct cf_circle *circle;
    int position;
    int *blocks;
    int found;     /* blocks, of as many rounds */
    int last;      /* the position whose block was found last: the next one is before it */
    unsigned left; /* bits: base blocks not found yet; the highest is for the root's */
};

/* How far a position may be whose block is received in the next round, or in the one after that. */
static int limit(const struct search *of, int round) {
    return round > of->circle->rounds ? INT_MIN : of->position - of->circle->skip[round];
}

/* Tries the positions that skip k or a smaller one leads to from `from`, the furthest first, and
 * those behind them. */
static void search_from(struct search *of, int from, int k) {
    for (; k >= 0; k--) {
        const int to = from + of->circle->skip[k];
        if ((of->left >> k & 1) == 0 || to > limit(of, of->found) || to >= of->last) {
            continue;
        }
        if (to <= limit(of, of->found + 1)) {
            search_from(of, to, k);
        }
        if (of->found == of->circle->rounds || from > limit(of, of->found + 1)) {
            return;
        }
        of->last = to;
        of->left &= ~(1U << k);
        of->blocks[of->found++] = k;
        if (of->found == of->circle->rounds) {
            return;
        }
    }
}

void cf_circle_blocks(const struct cf_circle *circle, int position, int *blocks) {
    const int rounds = circle->rounds;
    const int base = base_block(circle, position);
    struct search search = {
        .circle = circle,
        .position = position + circle->n,
        .blocks = blocks,
        .last = 2 * circle->n,
        .left = (2U << rounds) - 1,
    };

    if (position > 0) {
        search.left &= ~(1U << base);
    }
    search_from(&search, 0, rounds);
    for (int k = 0; k < rounds; k++) {
        blocks[k] = blocks[k] == rounds ? base : blocks[k] - rounds;
    }
}
