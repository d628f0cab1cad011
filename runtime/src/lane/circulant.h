/*
 * Which blocks a rank receives when a root broadcasts them on the circulant graph (J. L. Träff,
 * arXiv 2312.11236). The n ranks form a circle, in which the root has position 0. skip[k] is
 * n / 2^(rounds - k), rounded up. In round i, with k = i mod rounds, a rank receives from the one
 * skip[k] before it, and sends to the one skip[k] after it. The root sends a new block in each
 * round.
 */
#ifndef COLLFORGE_CIRCULANT_H_INCLUDED
#define COLLFORGE_CIRCULANT_H_INCLUDED

enum { CF_CIRCLE_ROUNDS = 31 };

struct cf_circle {
    int n;
    int rounds;                     /* of a phase: log2 n, rounded up */
    int skip[CF_CIRCLE_ROUNDS + 1]; /* skip[rounds] = n */
};

void cf_circle_of(struct cf_circle *circle, int n);

/*
 * The blocks that a position receives in the rounds of the first phase; in each later phase, those
 * that follow them by `rounds`. Blocks below 0 do not exist. After the phases 0 to j a position
 * other than the root's has all blocks up to j * rounds - 1, and its base block of phase j. Takes
 * O(rounds^2) steps.
 */
void cf_circle_blocks(const struct cf_circle *circle, int position, int *blocks);

#endif
