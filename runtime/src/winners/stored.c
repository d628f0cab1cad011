#include "winners/stored.h"

#include <stdlib.h>
#include <string.h>

bool cf_winners_add(struct cf_winners *winners, const char *layout, int collective, int bytes,
                    const struct cf_choice *choice) {
    if (winners->count == winners->capacity) {
        const int capacity = winners->capacity == 0 ? 64 : 2 * winners->capacity;
        void *items = realloc(winners->items, (size_t)capacity * sizeof *winners->items);
        if (items == NULL)
            return false;
        winners->items = items;
        winners->capacity = capacity;
    }
    struct cf_winner *winner = &winners->items[winners->count++];
    memset(winner, 0, sizeof *winner);
    strncpy(winner->layout, layout, sizeof winner->layout - 1);
    winner->collective = collective;
    winner->bytes = bytes;
    memcpy(winner->parameter, choice->parameter, sizeof winner->parameter);
    winner->variant = CF_NATIVE_WINS;
    for (int v = 0; v < cf_nvariants; v++)
        if (cf_variants[v] == choice->variant)
            winner->variant = v;
    return true;
}

void cf_winners_free(struct cf_winners *winners) {
    free(winners->items);
    memset(winners, 0, sizeof *winners);
}

bool cf_winners_any(const struct cf_winners *winners) {
    for (int i = 0; i < winners->count; i++)
        if (winners->items[i].variant >= 0)
            return true;
    return false;
}

static int compare(const void *left, const void *right) {
    const struct cf_winner *a = left;
    const struct cf_winner *b = right;
    const int by_layout = strcmp(a->layout, b->layout);
    if (by_layout != 0)
        return by_layout;
    if (a->collective != b->collective)
        return a->collective < b->collective ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    /* A damaged database may have two winners for one problem. All ranks must sort them alike. */
    if (a->variant != b->variant)
        return a->variant < b->variant ? -1 : 1;
    return memcmp(a->parameter, b->parameter, sizeof a->parameter);
}

void cf_winners_sort(const struct cf_winners *winners) {
    if (winners->count > 0)
        qsort(winners->items, (size_t)winners->count, sizeof *winners->items, compare);
}

int cf_winners_layouts(const struct cf_winners *winners) {
    int layouts = 0;
    cf_winners_sort(winners);
    for (int i = 0; i < winners->count; i++)
        if (i == 0 || strcmp(winners->items[i].layout, winners->items[i - 1].layout) != 0)
            layouts++;
    return layouts;
}

void cf_winners_drop_reductions(struct cf_winners *winners) {
    int kept = 0;
    for (int i = 0; i < winners->count; i++)
        if (!cf_collectives[winners->items[i].collective].has_op)
            winners->items[kept++] = winners->items[i];
    winners->count = kept;
}
