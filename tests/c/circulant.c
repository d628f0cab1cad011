/* Checks the schedules of broadcasts on the circulant graph for all numbers of ranks up to the
 * argument: each rank has what it sends, and gets each block once, in the optimal time. */
#include "lane/circulant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 40 };

struct play {
    struct cf_circle circle;
    int (*blocks)[CF_CIRCLE_ROUNDS]; /* by position and round of a phase */
    char (*has)[BLOCKS];
};

/* What a position gets in a round of a broadcast of endless data; -1: none of the first BLOCKS. */
static int block_in(const struct play *play, int position, int round) {
    const int k = round % play->circle.rounds;
    const int block = play->blocks[position][k] + round - k;

    return block < BLOCKS ? block : -1;
}

static const char *play_round(const struct play *play, int round) {
    const struct cf_circle *circle = &play->circle;

    for (int position = 1; position < circle->n; position++) {
        const int skip = circle->skip[round % circle->rounds];
        const int source = (position - skip + circle->n) % circle->n;
        const int block = block_in(play, position, round);
        if (block >= 0 && source == 0 && block != round) {
            return "the root does not send a new block";
        }
        if (block >= 0 && source != 0 && !play->has[source][block]) {
            return "the source does not have the block";
        }
        if (block >= 0 && play->has[position][block]) {
            return "a block comes twice";
        }
    }
    for (int position = 1; position < circle->n; position++) {
        if (block_in(play, position, round) >= 0) {
            play->has[position][block_in(play, position, round)] = 1;
        }
    }
    return NULL;
}

static const char *check(struct play *play) {
    const int rounds = play->circle.rounds;

    for (int position = 0; position < play->circle.n; position++) {
        cf_circle_blocks(&play->circle, position, play->blocks[position]);
    }
    for (int round = 0; round < BLOCKS - 1 + rounds; round++) {
        const char *fault = play_round(play, round);
        if (fault != NULL) {
            return fault;
        }
        /* After j phases a rank has all blocks of the phases before the last one. */
        const int complete = (round + 1) / rounds * rounds - rounds + 1;
        for (int position = 1; position < play->circle.n && complete <= BLOCKS; position++) {
            if (complete > 0 && memchr(play->has[position], 0, (size_t)(complete - 1)) != NULL) {
                return "a block is late";
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    const int most = argc == 2 ? atoi(argv[1]) : 0;

    for (int n = 2; n <= most; n++) {
        struct play play = {.blocks = malloc((size_t)n * sizeof *play.blocks),
                            .has = calloc((size_t)n, sizeof *play.has)};
        cf_circle_of(&play.circle, n);
        const char *fault = check(&play);
        if (fault != NULL) {
            printf("%d ranks: %s\n", n, fault);
            return 1;
        }
        free(play.blocks);
        free(play.has);
    }
    printf("passed\n");
    return 0;
}
