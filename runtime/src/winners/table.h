/*
 * The winners of all layouts, as each rank keeps them: 8 bytes a row, every choice once. With 200
 * layouts of 16 collectives at 6 sizes that is 300 KiB.
 */
#ifndef COLLFORGE_TABLE_H_INCLUDED
#define COLLFORGE_TABLE_H_INCLUDED

#include "winners/winners.h"

/* The decision at one size. */
struct cf_row {
    int bytes;
    int choice; /* index in choices, CF_NATIVE_WINS or CF_NATIVE_TIES */
};

struct cf_table_choice {
    const struct cf_variant *variant;
    int parameter[CF_MAX_PARAMETERS];
};

struct cf_table_layout {
    char name[CF_LAYOUT_NAME_SIZE];
    long ranks; /* in communicators of this layout; 0: unknown from its name */
    bool any;   /* whether any collective has a variant */
    int nodes;  /* of a point of the map, whose layouts are not all of its size; else 0 */
    int ranks_per_node;
    bool far; /* an extrapolated point */
};

struct cf_table {
    int layouts;
    struct cf_table_layout *layout; /* [layouts] in the order of their names */
    int *first; /* [layouts * cf_ncollectives + 1] index of the first row of a collective on a
                   layout; its rows are sorted by bytes */
    struct cf_row *row;
    struct cf_saving *saving; /* of each row; NULL unless cf_runtime.counts */
    struct cf_table_choice *choices;
    int nchoices;
};

/* Sorts the winners and fills the table from them. Keeps no reference to winners. False when out of
 * memory; the table is then to be freed, too. */
bool cf_table_fill(struct cf_table *table, const struct cf_winners *winners);
void cf_table_free(struct cf_table *table);

/* The rows of a collective on a layout, and their number. layout < 0: none. */
const struct cf_row *cf_table_rows(const struct cf_table *table, int layout, int collective,
                                   int *count);

/* The stored layout of the placement with this name and these sockets that has the most threads,
 * but at most so many; -1: none. */
int cf_table_exact(const struct cf_table *table, const char *placement, int threads,
                   enum cf_sockets sockets);
/* The point of the map that is nearest to a layout; -1: none is near. */
int cf_table_nearest(const struct cf_table *table, const struct cf_layout *layout);

#endif
