#define _GNU_SOURCE /* qsort_r */
#include "winners/winners.h"

#include <stdlib.h>
#include <string.h>

/* The index of a layout's name; -1 when out of memory. Rows of a layout come one after another. */
static int layout_of(struct cf_winners *winners, const char *name) {
    if (winners->count > 0) {
        const int last = winners->items[winners->count - 1].layout;
        if (strcmp(winners->layouts[last], name) == 0) {
            return last;
        }
    }
    for (int i = 0; i < winners->nlayouts; i++) {
        if (strcmp(winners->layouts[i], name) == 0) {
            return i;
        }
    }
    if (winners->nlayouts == winners->layout_capacity) {
        const int capacity = winners->layout_capacity == 0 ? 16 : 2 * winners->layout_capacity;
        void *layouts = realloc(winners->layouts, (size_t)capacity * sizeof *winners->layouts);
        if (layouts == NULL) {
            return -1;
        }
        winners->layouts = layouts;
        winners->layout_capacity = capacity;
    }
    char *added = winners->layouts[winners->nlayouts];
    memset(added, 0, CF_LAYOUT_NAME_SIZE);
    strncpy(added, name, CF_LAYOUT_NAME_SIZE - 1);
    return winners->nlayouts++;
}

bool cf_winners_add(struct cf_winners *winners, const char *layout, int collective, int bytes,
                    const struct cf_choice *choice) {
    if (winners->count == winners->capacity) {
        const int capacity = winners->capacity == 0 ? 64 : 2 * winners->capacity;
        void *items = realloc(winners->items, (size_t)capacity * sizeof *winners->items);
        if (items == NULL) {
            return false;
        }
        winners->items = items;
        winners->capacity = capacity;
    }
    const int index = layout_of(winners, layout);
    if (index < 0) {
        return false;
    }
    struct cf_winner *winner = &winners->items[winners->count++];
    memset(winner, 0, sizeof *winner);
    winner->layout = index;
    winner->collective = collective;
    winner->bytes = bytes;
    memcpy(winner->parameter, choice->parameter, sizeof winner->parameter);
    winner->variant = CF_NATIVE_WINS;
    for (int v = 0; v < cf_nvariants; v++) {
        if (cf_variants[v] == choice->variant) {
            winner->variant = v;
        }
    }
    return true;
}

void cf_winners_free(struct cf_winners *winners) {
    free(winners->items);
    free(winners->layouts);
    memset(winners, 0, sizeof *winners);
}

bool cf_winners_know_sockets(const struct cf_winners *winners) {
    for (int i = 0; i < winners->nlayouts; i++) {
        const char *name = winners->layouts[i];
        if (!cf_layout_is_expected(name) && strchr(name, '-') != NULL) {
            return true;
        }
    }
    return false;
}

bool cf_winners_any(const struct cf_winners *winners) {
    for (int i = 0; i < winners->count; i++) {
        if (winners->items[i].variant >= 0) {
            return true;
        }
    }
    return false;
}

static int compare(const void *left, const void *right, void *argument) {
    const struct cf_winners *winners = argument;
    const struct cf_winner *a = left;
    const struct cf_winner *b = right;
    if (a->layout != b->layout) {
        return strcmp(winners->layouts[a->layout], winners->layouts[b->layout]);
    }
    if (a->collective != b->collective) {
        return a->collective < b->collective ? -1 : 1;
    }
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    /* A damaged database may have two winners for one problem. All ranks must sort them alike. */
    if (a->variant != b->variant) {
        return a->variant < b->variant ? -1 : 1;
    }
    return memcmp(a->parameter, b->parameter, sizeof a->parameter);
}

void cf_winners_sort(const struct cf_winners *winners) {
    if (winners->count > 0) {
        qsort_r(winners->items, (size_t)winners->count, sizeof *winners->items, compare,
                (void *)winners);
    }
}

void cf_winners_drop_reductions(struct cf_winners *winners) {
    int kept = 0;
    for (int i = 0; i < winners->count; i++) {
        if (!cf_collectives[winners->items[i].collective].has_op) {
            winners->items[kept++] = winners->items[i];
        }
    }
    winners->count = kept;
}

void cf_winners_drop_untried(struct cf_winners *winners, enum cf_guard guard) {
    int kept = 0;
    for (int i = 0; i < winners->count; i++) {
        const struct cf_winner *one = &winners->items[i];
        const bool has_op = cf_collectives[one->collective].has_op;
        const char *name = winners->layouts[one->layout];
        if (guard >= (has_op ? CF_GUARD_REDUCTIONS : CF_GUARD_ON) ||
            strncmp(name, CF_FAR_POINT, sizeof CF_FAR_POINT - 1) != 0) {
            winners->items[kept++] = *one;
        }
    }
    winners->count = kept;
}
