/*
 * The room winners: from a database or COLLFORGE_FORCE, which name winners at a few sizes, to what
 * each collective runs for every size on each layout.
 */
#ifndef COLLFORGE_RULES_H_INCLUDED
#define COLLFORGE_RULES_H_INCLUDED

#include "base/cf.h"
#include "data/sizes.h"
#include "place/layout.h"

/* The layout name of a winner that holds for every layout and comes before the others: a forced
 * one. */
#define CF_ANY_LAYOUT "*"

/* Native is faster than the variants, or as fast as the best of them within the margin. */
enum { CF_NATIVE_WINS = -1, CF_NATIVE_TIES = -2 };

/* How many buckets a winner serves on a side with another measured size: a factor of two. */
enum { CF_REACH = 4 };

/* One row of the winner table. Holds no pointers, so that it can travel. */
struct cf_winner {
    char layout[CF_LAYOUT_NAME_SIZE];
    int collective;
    int bytes;   /* > 0 */
    int variant; /* index in cf_variants, CF_NATIVE_WINS or CF_NATIVE_TIES */
    int parameter[CF_MAX_PARAMETERS];
};

/* Every rank holds a winner while it travels (300 bytes) and the rules of each layout (20 KiB). */
enum { CF_MOST_WINNERS = 1 << 16, CF_MOST_LAYOUTS = 1 << 10 };

struct cf_winners {
    struct cf_winner *items;
    int count;
    int capacity;
};

/* Appends a winner. False when memory is out. */
bool cf_winners_add(struct cf_winners *winners, const char *layout, int collective, int bytes,
                    const struct cf_choice *choice);
/* Removes those of collectives with an op, so that native decides in which order it is applied. */
void cf_winners_drop_reductions(struct cf_winners *winners);
/* Sorts them and counts their layouts. */
int cf_winners_layouts(const struct cf_winners *winners);
void cf_winners_free(struct cf_winners *winners);
/* Whether one of them is not native. */
bool cf_winners_any(const struct cf_winners *winners);

/* What holds on one layout. */
struct cf_rules {
    const char *layout;
    long ranks;  /* of the communicators that can have this layout; 0: its name does not tell */
    bool any;    /* whether any collective is tuned */
    bool *tuned; /* [cf_ncollectives] whether any size has a choice other than native */
    const struct cf_choice **by_size; /* [cf_ncollectives][CF_BUCKETS] NULL: native */
};

/* Sorts the winners and keeps what follows from them; they may be freed then. False when memory is
 * out. */
bool cf_rules_build(struct cf_winners *winners);
/* The rules of the layout with the name of this placement and the most threads that are not more
 * than these; NULL when native is best for everything. */
const struct cf_rules *cf_rules_find(const char *placement, int threads);
/* Whether some collective is not native on some communicator of so many ranks. Asked for every
 * communicator: no text is read. */
bool cf_rules_any_for(int size);
void cf_rules_free(void);

#endif
