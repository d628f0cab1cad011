/*
 * The room winners: from a database or COLLFORGE_FORCE, which name winners at a few sizes, to the
 * choice of each collective for every size on each layout.
 */
#ifndef COLLFORGE_RULES_H_INCLUDED
#define COLLFORGE_RULES_H_INCLUDED

#include "base/cf.h"
#include "data/sizes.h"
#include "place/layout.h"
#include "winners/winners.h"

/* Buckets that a winner serves towards a neighbouring measured size: a factor of two. */
enum { CF_REACH = 4 };

/* [cf_ncollectives] What a placement must be for the collective to follow a point of the map, as
 * bits. Generated (map_needs in generator/model.py). */
enum { CF_NEEDS_CONSECUTIVE = 1, CF_NEEDS_EVEN = 2 };
extern const int cf_map_needs[];

/* The choices on one layout. */
struct cf_rules {
    const char
        *layout; /* name of the stored layout, or of the point of the map, that they are from */
    bool *tuned; /* [cf_ncollectives] whether a variant is chosen for any size */
    const struct cf_choice **by_size; /* [cf_ncollectives][CF_BUCKETS] NULL: native */
};

/* Keeps the winners, sorted, in a compact table; no reference to them. False when out of memory. */
bool cf_rules_start(struct cf_winners *winners);
/* Whether any winner is for the parts of a job. Then cf_rules_set_job is to be called. */
bool cf_rules_know_parts(void);
/* Takes a copy of the name of the job's placement. */
void cf_rules_set_job(const char *placement);
/*
 * The rules of a layout whose placement has this name; *rules is NULL if native serves all calls.
 * Each collective follows, in this order: a forced choice; the winners of this placement as a part
 * of the job; those of this placement, both first with the layout's sockets, then with any, and
 * with the largest number of threads up to the layout's; the nearest point of the map, if that
 * tells of the placement (sources.c). A nonblocking form follows its own winners within a factor of
 * two of their sizes, else its collective. With COLLFORGE_REPRODUCIBLE, reductions follow
 * fixed_order.h. Thread-safe. The rules live until cf_rules_stop. False when out of memory.
 */
bool cf_rules_find(const char *placement, const struct cf_layout *layout,
                   const struct cf_rules **rules);
/* Whether any collective may be tuned on a communicator of this size. Called for every
 * communicator, so it reads no text. */
bool cf_rules_any_for(int size);
void cf_rules_stop(void);

#endif
