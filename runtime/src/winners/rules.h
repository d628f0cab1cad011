/*
 * The room winners: from a database or COLLFORGE_FORCE, which name winners at a few sizes, to the
 * choice of each collective for every size on each layout.
 */
#ifndef COLLFORGE_RULES_H_INCLUDED
#define COLLFORGE_RULES_H_INCLUDED

#include "base/cf.h"
#include "data/sizes.h"
#include "place/layout.h"

/* The layout name of a forced winner, which applies to every layout, before all others. */
#define CF_ANY_LAYOUT "*"

/* Native is faster than all variants; or as fast as the best, within the margin. */
enum { CF_NATIVE_WINS = -1, CF_NATIVE_TIES = -2 };

/* Buckets that a winner serves towards a neighbouring measured size: a factor of two. */
enum { CF_REACH = 4 };

/* One row of the winner table. No pointers, so that it can be broadcast. */
struct cf_winner {
    char layout[CF_LAYOUT_NAME_SIZE];
    int collective;
    int bytes;   /* > 0 */
    int variant; /* index in cf_variants, CF_NATIVE_WINS or CF_NATIVE_TIES */
    int parameter[CF_MAX_PARAMETERS];
};

/* Limits, because every rank holds the broadcast winners (300 bytes each) and the rules (20 KiB per
 * layout). */
enum { CF_MOST_WINNERS = 1 << 16, CF_MOST_LAYOUTS = 1 << 10 };

struct cf_winners {
    struct cf_winner *items;
    int count;
    int capacity;
};

/* Appends a winner. False when out of memory. */
bool cf_winners_add(struct cf_winners *winners, const char *layout, int collective, int bytes,
                    const struct cf_choice *choice);
/* Removes the winners of collectives with an op, so that reductions have native's order. */
void cf_winners_drop_reductions(struct cf_winners *winners);
/* Sorts the winners and returns the number of their layouts. */
int cf_winners_layouts(const struct cf_winners *winners);
void cf_winners_free(struct cf_winners *winners);
/* Whether any winner is a variant. */
bool cf_winners_any(const struct cf_winners *winners);

/* The choices on one layout. */
struct cf_rules {
    const char *layout;
    long ranks;  /* in communicators of this layout; 0: unknown from its name */
    bool any;    /* whether any collective is tuned */
    bool *tuned; /* [cf_ncollectives] whether a variant is chosen for any size */
    const struct cf_choice **by_size; /* [cf_ncollectives][CF_BUCKETS] NULL: native */
};

/* Sorts the winners and builds the rules from them. Keeps no reference to winners. False when out
 * of memory. */
bool cf_rules_build(struct cf_winners *winners);
/* The rules of the layout with this placement's name and the largest number of threads up to
 * `threads`; NULL if native serves all calls. */
const struct cf_rules *cf_rules_find(const char *placement, int threads);
/* Whether any collective is tuned on any communicator of this size. Called for every communicator,
 * so it reads no text. */
bool cf_rules_any_for(int size);
void cf_rules_free(void);

#endif
