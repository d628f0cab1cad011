/* The stored winners as they are read, on one rank, and broadcast (stored.c), and how they are read
 * from a database or a published file (winners.c). */
#ifndef COLLFORGE_WINNERS_H_INCLUDED
#define COLLFORGE_WINNERS_H_INCLUDED

#include "base/cf.h"
#include "base/runtime.h"
#include "place/layout.h"

/* The layout name of a forced winner, which applies to every layout, before all others. */
#define CF_ANY_LAYOUT "*"
/* Begins the layout name "~NODESxRANKS" of a point of the map: what is expected to win there. It
 * serves the layouts near it that were not measured themselves. */
#define CF_MAP_POINT '~'
/* Begins the name of a point that is extrapolated, far beyond what was measured. Libraries that
 * know no such points take it for none. */
#define CF_FAR_POINT "~~"
/* Begin a layout's name where the map serves it: at these sizes, production jobs confirmed a
 * variant of the map, which needs no trial, or refuted it. */
#define CF_CONFIRMED '='
#define CF_REFUTED '!'
/* Ends the job's layout in a name such as 4x2/4x1: winners of communicators of layout 4x1 into
 * which a job of layout 4x2 is divided. */
#define CF_JOB_END '/'

/* Native is faster than all variants; or as fast as the best, within the margin. */
enum { CF_NATIVE_WINS = -1, CF_NATIVE_TIES = -2 };

/* One row. No pointers, so that it can be broadcast. */
struct cf_winner {
    int layout; /* index of its name */
    int collective;
    int bytes;   /* > 0 */
    int variant; /* index in cf_variants, CF_NATIVE_WINS or CF_NATIVE_TIES */
    int parameter[CF_MAX_PARAMETERS];
    struct cf_saving saving;
};

/* Limits of a database: a row takes 60 bytes while it is read, and 8 afterwards. */
enum { CF_MOST_WINNERS = 1 << 16, CF_MOST_LAYOUTS = 1 << 10 };

struct cf_winners {
    struct cf_winner *items;
    int count;
    int capacity;
    char (*layouts)[CF_LAYOUT_NAME_SIZE]; /* names, each once */
    int nlayouts;
    int layout_capacity;
    char system[256]; /* the system that they were loaded for; on the rank that did */
};

/* Appends a winner, and its layout's name if that is new. False when out of memory. */
bool cf_winners_add(struct cf_winners *winners, const char *layout, int collective, int bytes,
                    const struct cf_choice *choice);
/* Removes the winners of collectives with an op, so that reductions have native's order. */
void cf_winners_drop_reductions(struct cf_winners *winners);
/* Removes what is extrapolated, unless the guard tries it before it serves. */
void cf_winners_drop_untried(struct cf_winners *winners, enum cf_guard guard);
/* Sorts by the name of the layout, collective and bytes, alike on all ranks. */
void cf_winners_sort(const struct cf_winners *winners);
void cf_winners_free(struct cf_winners *winners);
/* Whether the name of any layout tells of sockets. Then layouts are to have them
 * (cf_topology_find_sockets). */
bool cf_winners_know_sockets(const struct cf_winners *winners);
/* Whether a layout's name is of the map, or of what jobs learnt of it: not of measured winners. */
static inline bool cf_layout_is_expected(const char *name) {
    return name[0] == CF_MAP_POINT || name[0] == CF_CONFIRMED || name[0] == CF_REFUTED;
}
/* Whether any winner is a variant. */
bool cf_winners_any(const struct cf_winners *winners);

/*
 * Adds the winners that the file at path has for a system and for this runtime's MPI library. The
 * file is a database, or one that `collforge publish` has written. sha256: the digest that it must
 * have, which only a published one can; NULL: any. system is its name; NULL: the system whose host
 * pattern matches this host, or else the only one. Call on one rank. All or nothing: one invalid
 * row makes the whole file unusable, because the origin of the others is doubtful, too. Returns
 * false then, with the reason and a remedy in why.
 */
bool cf_winners_load(const char *path, const char *sha256, const char *system,
                     struct cf_winners *winners, char *why, size_t whysize);

#endif
