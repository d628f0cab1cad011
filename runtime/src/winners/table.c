#include "winners/table.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/runtime.h"

/* A point of the map serves layouts whose nodes, and whose ranks per node, differ by this factor at
 * most. */
static const double most_factor = 1.5;

/* Of a damaged name, so that no sum or product of two overflows. */
enum { MOST_RANKS = 1 << 24 };

static long number_at(const char *text, char **end) {
    const long number = strtol(text, end, 10);
    return number < 0 || number > MOST_RANKS ? MOST_RANKS : number;
}

/* The number of ranks that a layout's name implies; 0 if unknown. */
static long ranks_of(const char *layout) {
    static const char cyclic[] = "cyclic:";
    static const char placement[] = "map:";
    char *end = NULL;
    long ranks = 0;
    if (strncmp(layout, placement, sizeof placement - 1) == 0) {
        for (const char *c = layout; c != NULL; c = strchr(c + 1, '.')) {
            ranks++;
        }
        return ranks;
    }
    if (strncmp(layout, cyclic, sizeof cyclic - 1) == 0) {
        layout += sizeof cyclic - 1;
    }
    ranks = number_at(layout, &end);
    if (*end == 'x' && strchr(layout, '+') == NULL) {
        return ranks * number_at(end + 1, &end);
    }
    while (*end == '+') {
        ranks += number_at(end + 1, &end);
    }
    return ranks;
}

static void describe(struct cf_table_layout *layout, const char *name) {
    char *end = NULL;
    const char *job_end = strchr(name, CF_JOB_END);
    memcpy(layout->name, name, sizeof layout->name);
    layout->ranks = ranks_of(job_end == NULL ? name : job_end + 1);
    if (name[0] != CF_MAP_POINT) {
        return;
    }
    const long nodes = strtol(name + strspn(name, CF_FAR_POINT), &end, 10);
    const long ranks = *end == 'x' ? strtol(end + 1, NULL, 10) : 0;
    layout->ranks = 0;
    if (nodes > 0 && nodes < MOST_RANKS && ranks > 0 && ranks < MOST_RANKS) {
        layout->nodes = (int)nodes;
        layout->ranks_per_node = (int)ranks;
        layout->far = strncmp(name, CF_FAR_POINT, sizeof CF_FAR_POINT - 1) == 0;
    }
}

/* The index of the winner's choice, which is added if it is new. `slots`: a hash table of
 * indices + 1, with a power of two of them, at least twice the number of winners. */
static int choice_of(struct cf_table *table, const struct cf_winner *winner, int *slots,
                     size_t nslots) {
    if (winner->variant < 0) {
        return winner->variant;
    }
    const struct cf_variant *variant = cf_variants[winner->variant];
    const uint64_t hash = cf_hash(cf_hash(CF_HASH_BEGIN, &winner->variant, sizeof winner->variant),
                                  winner->parameter, sizeof winner->parameter);
    size_t at = (size_t)hash & (nslots - 1);
    for (; slots[at] != 0; at = (at + 1) & (nslots - 1)) {
        const struct cf_table_choice *known = &table->choices[slots[at] - 1];
        if (known->variant == variant &&
            memcmp(known->parameter, winner->parameter, sizeof known->parameter) == 0) {
            return slots[at] - 1;
        }
    }
    struct cf_table_choice *choice = &table->choices[table->nchoices];
    choice->variant = variant;
    memcpy(choice->parameter, winner->parameter, sizeof choice->parameter);
    slots[at] = ++table->nchoices;
    return table->nchoices - 1;
}

static bool allocate(struct cf_table *table, int winners) {
    const size_t cells = (size_t)table->layouts * (size_t)cf_ncollectives + 1;
    table->layout = calloc((size_t)table->layouts + 1, sizeof *table->layout);
    table->first = calloc(cells, sizeof *table->first);
    table->row = calloc((size_t)winners + 1, sizeof *table->row);
    table->choices = calloc((size_t)winners + 1, sizeof *table->choices);
    if (cf_runtime.counts) {
        table->saving = calloc((size_t)winners + 1, sizeof *table->saving);
    }
    return table->layout != NULL && table->first != NULL && table->row != NULL &&
           table->choices != NULL && (table->saving != NULL || !cf_runtime.counts);
}

bool cf_table_fill(struct cf_table *table, const struct cf_winners *winners) {
    size_t nslots = 2;
    memset(table, 0, sizeof *table);
    cf_winners_sort(winners);
    for (int i = 0; i < winners->count; i++) {
        table->layouts += i == 0 || winners->items[i].layout != winners->items[i - 1].layout;
    }
    while (nslots < 2 * (size_t)winners->count) {
        nslots *= 2;
    }
    int *slots = calloc(nslots, sizeof *slots);
    if (slots == NULL || !allocate(table, winners->count)) {
        free(slots);
        return false;
    }
    int layout = -1;
    int cell = 0;
    for (int i = 0; i < winners->count; i++) {
        const struct cf_winner *winner = &winners->items[i];
        if (i == 0 || winner->layout != winners->items[i - 1].layout) {
            describe(&table->layout[++layout], winners->layouts[winner->layout]);
        }
        while (cell <= layout * cf_ncollectives + winner->collective) {
            table->first[cell++] = i;
        }
        table->row[i] = (struct cf_row){winner->bytes, choice_of(table, winner, slots, nslots)};
        if (table->saving != NULL) {
            table->saving[i] = winner->saving;
        }
        const char first = table->layout[layout].name[0];
        table->layout[layout].any =
            table->layout[layout].any ||
            (winner->variant >= 0 && first != CF_CONFIRMED && first != CF_REFUTED);
    }
    while (cell <= table->layouts * cf_ncollectives) {
        table->first[cell++] = winners->count;
    }
    free(slots);
    /* Few of the choices differ. A failed shrink is harmless. */
    void *fewer = realloc(table->choices, ((size_t)table->nchoices + 1) * sizeof *table->choices);
    if (fewer != NULL) {
        table->choices = fewer;
    }
    return true;
}

void cf_table_free(struct cf_table *table) {
    free(table->layout);
    free(table->first);
    free(table->row);
    free(table->saving);
    free(table->choices);
    memset(table, 0, sizeof *table);
}

const struct cf_row *cf_table_rows(const struct cf_table *table, int layout, int collective,
                                   int *count) {
    *count = 0;
    if (layout < 0) {
        return NULL;
    }
    const int *first = &table->first[layout * cf_ncollectives + collective];
    *count = first[1] - first[0];
    return &table->row[first[0]];
}

/* The threads in a layout's name; 0 if its placement or what follows the threads differs. */
static int threads_of(const char *layout, const char *placement, const char *suffix) {
    const size_t length = strlen(placement);
    if (strncmp(layout, placement, length) != 0) {
        return 0;
    }
    if (strcmp(layout + length, suffix) == 0) {
        return 1;
    }
    if (layout[length] != 'x') {
        return 0;
    }
    char *end = NULL;
    const long threads = strtol(layout + length + 1, &end, 10);
    return strcmp(end, suffix) == 0 && threads <= INT_MAX ? (int)threads : 0;
}

int cf_table_exact(const struct cf_table *table, const char *placement, int threads,
                   enum cf_sockets sockets) {
    const char *suffix = cf_sockets_suffix(sockets);
    int most = 0;
    int exact = -1;
    for (int i = 0; i < table->layouts; i++) {
        const int found = threads_of(table->layout[i].name, placement, suffix);
        if (found > most && found <= threads) {
            most = found;
            exact = i;
        }
    }
    return exact;
}

static double factor(double a, double b) {
    return a > b ? a / b : b / a;
}

/*
 * Distance is the product of the factors by which nodes and ranks per node differ. One node or
 * several, one rank on each node or more, are different kinds, which no factor relates. What is
 * extrapolated serves only where nothing else is near: it has less evidence. The result
 * is alike on all ranks: IEEE 754 rounds one division of two integers alike on all processors.
 */
static int nearest_of(const struct cf_table *table, const struct cf_layout *layout, bool far) {
    const double ranks = (double)layout->size / layout->nodes;
    double least = most_factor * most_factor * 2;
    int nearest = -1;
    for (int i = 0; i < table->layouts; i++) {
        const struct cf_table_layout *point = &table->layout[i];
        if (point->nodes == 0 || point->far != far || (point->nodes == 1) != (layout->nodes == 1) ||
            (point->ranks_per_node == 1) != (layout->max_node_size == 1)) {
            continue;
        }
        const double by_nodes = factor(point->nodes, layout->nodes);
        const double by_ranks = factor(point->ranks_per_node, ranks);
        if (by_nodes <= most_factor && by_ranks <= most_factor && by_nodes * by_ranks < least) {
            least = by_nodes * by_ranks;
            nearest = i;
        }
    }
    return nearest;
}

int cf_table_nearest(const struct cf_table *table, const struct cf_layout *layout) {
    const int near = nearest_of(table, layout, false);
    return near >= 0 ? near : nearest_of(table, layout, true);
}
