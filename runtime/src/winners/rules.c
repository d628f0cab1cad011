#include "winners/rules.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int count;
    struct cf_rules *items; /* [count]; the first is for layouts without winners of their own */
    struct cf_choice *choices;
    char (*layouts)[CF_LAYOUT_NAME_SIZE];
} table;

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

static void sort(const struct cf_winners *winners) {
    if (winners->count > 0)
        qsort(winners->items, (size_t)winners->count, sizeof *winners->items, compare);
}

int cf_winners_layouts(const struct cf_winners *winners) {
    int layouts = 0;
    sort(winners);
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

/* The index of the first winner not before this collective on this layout. */
static int lower_bound(const struct cf_winners *winners, const char *layout, int collective) {
    int low = 0;
    int high = winners->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const struct cf_winner *winner = &winners->items[middle];
        const int by_layout = strcmp(winner->layout, layout);
        if (by_layout < 0 || (by_layout == 0 && winner->collective < collective))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The number of winners of a collective on a layout, and the index of the first. */
static int find_span(const struct cf_winners *winners, const char *layout, int collective,
                     int *first) {
    *first = lower_bound(winners, layout, collective);
    return lower_bound(winners, layout, collective + 1) - *first;
}

/*
 * Whether a winner applies in a bucket that is nearest to its size. Towards another measured size
 * it applies for at most CF_REACH buckets. Towards a size where native is faster it does not,
 * because native becomes faster somewhere in between. A native tie is no such bound.
 * (collforge/serving.py has the same rule; tests/data/serving.txt tests both.)
 */
static bool reaches(const struct cf_winner *winner, bool is_first, bool is_last, int bucket) {
    const int own = cf_bucket((uint64_t)winner->bytes);
    if (winner->variant < 0)
        return false;
    if (bucket == own || (bucket < own ? is_first : is_last))
        return true;
    const struct cf_winner *next = bucket < own ? winner - 1 : winner + 1;
    return next->variant != CF_NATIVE_WINS && abs(bucket - own) <= CF_REACH;
}

/*
 * Gives each bucket the winner of the measured size nearest to its centre 2^((2b+1)/8) on the
 * logarithmic scale, if the winner applies there. The centre is nearer to the larger of two sizes
 * exactly if 2^(2b+1) > (their product)^4. Below the smallest measured size only the adjacent
 * bucket gets its winner; lower ones stay native.
 */
static void fill_sizes(struct cf_rules *rules, const struct cf_winner *winners, int first,
                       int count) {
    const int collective = winners[first].collective;
    const uint64_t smallest = (uint64_t)winners[first].bytes;
    const int lowest = (cf_bucket(smallest * smallest) - 1) / 2;
    const struct cf_choice **by_size = &rules->by_size[collective * CF_BUCKETS];
    int i = first;
    for (int b = lowest; b < CF_BUCKETS; b++) {
        while (i + 1 < first + count &&
               cf_bucket((uint64_t)winners[i].bytes * (uint64_t)winners[i + 1].bytes) < 2 * b + 1)
            i++;
        if (!reaches(&winners[i], i == first, i + 1 == first + count, b))
            continue;
        by_size[b] = &table.choices[i];
        rules->tuned[collective] = true;
    }
}

/* The number of ranks that a layout's name implies; 0 if unknown. */
static long ranks_of(const char *layout) {
    static const char cyclic[] = "cyclic:";
    static const char placement[] = "map:";
    char *end = NULL;
    long ranks = 0;
    if (strncmp(layout, placement, sizeof placement - 1) == 0) {
        for (const char *c = layout; c != NULL; c = strchr(c + 1, '.'))
            ranks++;
        return ranks;
    }
    if (strncmp(layout, cyclic, sizeof cyclic - 1) == 0)
        layout += sizeof cyclic - 1;
    ranks = strtol(layout, &end, 10);
    if (*end == 'x' && strchr(layout, '+') == NULL)
        return ranks * strtol(end + 1, NULL, 10);
    while (*end == '+')
        ranks += strtol(end + 1, &end, 10);
    return ranks;
}

static bool fill_rules(struct cf_rules *rules, const struct cf_winners *winners,
                       const char *layout) {
    const size_t collectives = (size_t)cf_ncollectives;
    rules->layout = layout;
    rules->tuned = calloc(collectives, sizeof *rules->tuned);
    rules->by_size = calloc(collectives * CF_BUCKETS, sizeof *rules->by_size);
    if (rules->tuned == NULL || rules->by_size == NULL)
        return false;
    for (int c = 0; c < cf_ncollectives; c++) {
        int first = 0;
        int count = find_span(winners, CF_ANY_LAYOUT, c, &first);
        if (count == 0)
            count = find_span(winners, layout, c, &first);
        if (count > 0)
            fill_sizes(rules, winners->items, first, count);
        rules->any = rules->any || rules->tuned[c];
    }
    rules->ranks = ranks_of(layout);
    return true;
}

static bool allocate(const struct cf_winners *winners) {
    const size_t most = (size_t)winners->count + 1;
    table.items = calloc(most, sizeof *table.items);
    table.choices = calloc(most, sizeof *table.choices);
    table.layouts = calloc(most, sizeof *table.layouts);
    return table.items != NULL && table.choices != NULL && table.layouts != NULL;
}

bool cf_rules_build(struct cf_winners *winners) {
    if (!allocate(winners))
        return false;
    sort(winners);
    strcpy(table.layouts[0], CF_ANY_LAYOUT);
    int layouts = 1;
    for (int i = 0; i < winners->count; i++) {
        const struct cf_winner *winner = &winners->items[i];
        table.choices[i].variant = winner->variant < 0 ? NULL : cf_variants[winner->variant];
        memcpy(table.choices[i].parameter, winner->parameter, sizeof winner->parameter);
        table.choices[i].measured = winner->bytes;
        table.choices[i].waits = strcmp(winner->layout, CF_ANY_LAYOUT) != 0;
        if (strcmp(winner->layout, CF_ANY_LAYOUT) != 0 &&
            strcmp(winner->layout, table.layouts[layouts - 1]) != 0)
            strcpy(table.layouts[layouts++], winner->layout);
    }
    for (int l = 0; l < layouts; l++) {
        table.count++;
        if (!fill_rules(&table.items[l], winners, table.layouts[l]))
            return false;
    }
    return true;
}

/* The threads in a layout's name; 0 if its placement differs. */
static int threads_of(const char *layout, const char *placement) {
    const size_t length = strlen(placement);
    if (strncmp(layout, placement, length) != 0)
        return 0;
    if (layout[length] == '\0')
        return 1;
    if (layout[length] != 'x')
        return 0;
    char *end = NULL;
    const long threads = strtol(layout + length + 1, &end, 10);
    return *end == '\0' && threads <= INT_MAX ? (int)threads : 0;
}

bool cf_rules_any_for(int size) {
    for (int i = 0; i < table.count; i++) {
        const struct cf_rules *rules = &table.items[i];
        if (rules->any && (rules->ranks == 0 || rules->ranks == size))
            return true;
    }
    return false;
}

const struct cf_rules *cf_rules_find(const char *placement, int threads) {
    if (table.count == 0)
        return NULL;
    const struct cf_rules *rules = &table.items[0];
    int most = 0;
    for (int i = 1; i < table.count; i++) {
        const int found = threads_of(table.items[i].layout, placement);
        if (found > most && found <= threads) {
            most = found;
            rules = &table.items[i];
        }
    }
    return rules->any ? rules : NULL;
}

void cf_rules_free(void) {
    for (int i = 0; i < table.count; i++) {
        free(table.items[i].tuned);
        free(table.items[i].by_size);
    }
    free(table.items);
    free(table.choices);
    free(table.layouts);
    memset(&table, 0, sizeof table);
}
