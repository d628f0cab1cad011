/* Which of the stored layouts each collective follows on a layout (rules.h has the order). */
#ifndef COLLFORGE_SOURCES_H_INCLUDED
#define COLLFORGE_SOURCES_H_INCLUDED

#include "base/cf.h"
#include "winners/table.h"

/* The stored layouts of a layout itself, best first: of a part of the job or of any communicator,
 * with its sockets or with any. */
enum {
    CF_PART_ON_SOCKETS,
    CF_PART,
    CF_EXACT_ON_SOCKETS,
    CF_EXACT,
    CF_OWN,
    CF_SOURCES = CF_OWN + 2
};

/* Where the rules of a layout come from: indices in the table, -1 for none. */
struct cf_sources {
    const struct cf_table *table;
    int forced; /* of CF_ANY_LAYOUT */
    int own[CF_OWN];
    int point;
    int learnt[2]; /* what jobs refuted, and confirmed, of the point on this layout */
    int size; /* of the communicator, for which sizes at the point are converted; 0 without one */
    int placement;         /* what it is of cf_map_needs; 0 without a point */
    struct cf_facts facts; /* of the layout; zeros without COLLFORGE_REPRODUCIBLE */
};

/* job: the name of the placement of which this one is a part; "" if not needed. */
void cf_sources_find(struct cf_sources *sources, const char *job, const char *placement,
                     const struct cf_layout *layout);
bool cf_sources_are_alike(const struct cf_sources *a, const struct cf_sources *b);

/* Where rows of a collective may be, best first. */
void cf_sources_list(const struct cf_sources *sources, int collective, int from[CF_SOURCES]);
/* The layout whose rows a collective follows. */
int cf_source_of(const struct cf_sources *sources, int collective);
/* Whether a nonblocking form has only the rules of its collective: it has no rows, or its
 * collective has some that are nearer to the layout, or that have to be in a fixed order. */
bool cf_sources_follow(const struct cf_sources *sources, int form);

#endif
