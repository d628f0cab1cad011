#include "winners/rules.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/facts.h"
#include "winners/fixed_order.h"
#include "winners/sources.h"

/* Rules that were built for some communicator. Others with the same sources share them. */
struct built {
    struct cf_rules rules; /* for the users */
    struct cf_sources sources;
    bool any; /* whether any collective is tuned */
    struct cf_choice *choices;
    struct built *next;
};

static struct cf_table table;
static int forced = -1;      /* the index of CF_ANY_LAYOUT in the table */
static long most_on_map = 0; /* the most ranks of a point of the map */
static bool any_parts = false;
static char job[CF_LAYOUT_NAME_SIZE]; /* the name of its placement; empty if not needed */

/* The rules built so far. */
static struct {
    pthread_mutex_t mutex;
    struct built *first;
} list = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/*
 * Whether a winner applies in a bucket that is nearest to its size. Towards another measured size
 * it applies for at most CF_REACH buckets. Towards a size where native is faster it does not,
 * because native becomes faster somewhere in between. A native tie is no such bound.
 * (collforge/serving.py has the same rule; tests/data/serving.txt tests both.)
 */
static bool reaches(const struct cf_row *row, bool is_first, bool is_last, int bucket) {
    const int own = cf_bucket((uint64_t)row->bytes);
    if (row->choice < 0) {
        return false;
    }
    if (bucket == own || (bucket < own ? is_first : is_last)) {
        return true;
    }
    const struct cf_row *next = bucket < own ? row - 1 : row + 1;
    return next->choice != CF_NATIVE_WINS && abs(bucket - own) <= CF_REACH;
}

/*
 * Gives each bucket the winner of the measured size nearest to its centre 2^((2b+1)/8) on the
 * logarithmic scale, if the winner applies there. The centre is nearer to the larger of two sizes
 * exactly if 2^(2b+1) > (their product)^4. Below the smallest measured size only the adjacent
 * bucket gets its winner; lower ones stay as they are. reach: no bucket changes further than this
 * from all measured sizes. choices[i] is that of row i. Returns whether any bucket got one.
 */
static bool fill_sizes(const struct cf_choice **by_size, const struct cf_row *rows, int count,
                       const struct cf_choice *choices, int reach) {
    const uint64_t smallest = (uint64_t)rows[0].bytes;
    const int lowest = (cf_bucket(smallest * smallest) - 1) / 2;
    bool any = false;
    int i = 0;
    for (int b = lowest < 0 ? 0 : lowest; b < CF_BUCKETS; b++) {
        while (i + 1 < count &&
               cf_bucket((uint64_t)rows[i].bytes * (uint64_t)rows[i + 1].bytes) < 2 * b + 1) {
            i++;
        }
        if (abs(b - cf_bucket((uint64_t)rows[i].bytes)) <= reach) {
            by_size[b] = reaches(&rows[i], i == 0, i + 1 == count, b) ? &choices[i] : NULL;
            any = any || by_size[b] != NULL;
        }
    }
    return any;
}

/*
 * The bytes of a block for which a point's row stands on a communicator of `size` ranks: as many
 * bytes in all. Rows keep their order.
 */
static int converted(const struct cf_row *row, int point, int collective, int size) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    if (!info->total_is_size_blocks || info->sized == CF_SIZED_NONE) {
        return row->bytes;
    }
    const struct cf_table_layout *layout = &table.layout[point];
    const int64_t ranks = (int64_t)layout->nodes * layout->ranks_per_node;
    const int64_t bytes = row->bytes * ranks / size;
    return bytes < 1 ? 1 : bytes > CF_MOST_BYTES ? CF_MOST_BYTES : (int)bytes;
}

static int count_rows(const struct cf_sources *sources) {
    int rows = 0;
    for (int c = 0; c < cf_ncollectives; c++) {
        int count = 0;
        (void)cf_table_rows(&table, cf_source_of(sources, c), c, &count);
        rows += count;
        (void)cf_table_rows(&table, sources->learnt[1], c, &count);
        rows += count;
    }
    return rows;
}

static struct cf_choice choice_of(const struct cf_row *row) {
    struct cf_choice choice = {0};
    if (row->choice >= 0) {
        choice.variant = table.choices[row->choice].variant;
        memcpy(choice.parameter, table.choices[row->choice].parameter, sizeof choice.parameter);
    }
    return choice;
}

/* The choice in a fixed order that won at the largest size; variant NULL: none did. */
static struct cf_choice largest_in_order(const struct cf_sources *sources, int collective) {
    int from[CF_SOURCES];
    cf_sources_list(sources, collective, from);
    for (int s = 0; s < CF_SOURCES; s++) {
        int count = 0;
        const struct cf_row *rows = cf_table_rows(&table, from[s], collective, &count);
        for (int i = count - 1; i >= 0; i--) {
            const struct cf_choice choice = choice_of(&rows[i]);
            if (cf_order_is_fixed(&choice, &sources->facts)) {
                return choice;
            }
        }
    }
    return (struct cf_choice){0};
}

/* Whether native is forced. */
static bool is_given_up(int collective) {
    int count = 0;
    const struct cf_row *rows = cf_table_rows(&table, forced, collective, &count);
    return count > 0 && choice_of(&rows[0]).variant == NULL;
}

/* Fills the rules of a reduction with one choice for all sizes, whatever memory it takes. */
static void fill_in_order(struct built *built, int collective, struct cf_choice *choice) {
    const struct cf_choice **by_size = &built->rules.by_size[(size_t)collective * CF_BUCKETS];
    *choice = largest_in_order(&built->sources, collective);
    if (choice->variant == NULL) {
        cf_order_choose(collective, &built->sources.facts, choice);
    }
    if (choice->variant == NULL) {
        return;
    }
    choice->measured = CF_MOST_BYTES;
    choice->evidence = CF_FORCED;
    for (int b = 0; b < CF_BUCKETS; b++) {
        by_size[b] = choice;
    }
    built->any = built->rules.tuned[collective] = true;
}

/*
 * What jobs learnt of the map's choices on this very layout: one that lost to native is out, one
 * that won needs no trial. Choices are from `used` on. Returns their number.
 */
static int apply_learnt(struct built *built, int collective, int used) {
    const struct cf_choice **by_size = &built->rules.by_size[(size_t)collective * CF_BUCKETS];
    int added = 0;
    for (int confirmed = 0; confirmed < 2; confirmed++) {
        int count = 0;
        const struct cf_row *rows =
            cf_table_rows(&table, built->sources.learnt[confirmed], collective, &count);
        for (int i = 0; i < count; i++) {
            const struct cf_choice said = choice_of(&rows[i]);
            const struct cf_choice **at = &by_size[cf_bucket((uint64_t)rows[i].bytes)];
            if (*at == NULL || (*at)->variant != said.variant ||
                memcmp((*at)->parameter, said.parameter, sizeof said.parameter) != 0) {
                continue;
            }
            if (confirmed) {
                struct cf_choice *choice = &built->choices[used + added++];
                *choice = **at;
                choice->evidence = CF_LEARNT;
                *at = choice;
            } else {
                *at = NULL;
            }
        }
    }
    return added;
}

/* Fills the rules of one collective; its choices are from `used` on. Returns their number. */
static int fill_collective(struct built *built, int collective, struct cf_row *rows, int used) {
    const int from = cf_source_of(&built->sources, collective);
    const bool is_point = from >= 0 && from == built->sources.point;
    const bool is_form = cf_collectives[collective].collective != collective;
    int count = 0;
    const struct cf_row *stored = cf_table_rows(&table, from, collective, &count);
    struct cf_choice *choices = &built->choices[used];
    if (cf_runtime.reproducible && cf_collectives[collective].has_op && !is_given_up(collective)) {
        fill_in_order(built, collective, choices);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        rows[i] = stored[i];
        if (is_point) {
            rows[i].bytes = converted(&stored[i], from, collective, built->sources.size);
        }
        choices[i] = choice_of(&stored[i]);
        choices[i].measured = is_point ? 0 : rows[i].bytes;
        if (table.saving != NULL) {
            choices[i].saving = table.saving[&stored[i] - table.row];
        }
        choices[i].evidence = from == forced ? CF_FORCED : is_point ? CF_EXPECTED : CF_MEASURED;
    }
    const size_t at = (size_t)collective * CF_BUCKETS;
    const bool any = count > 0 && fill_sizes(&built->rules.by_size[at], rows, count, choices,
                                             is_form && from != forced ? CF_REACH : CF_BUCKETS);
    if (is_point && any) {
        count += apply_learnt(built, collective, used + count);
    }
    built->rules.tuned[collective] = built->rules.tuned[collective] || any;
    built->any = built->any || any;
    return count;
}

/* The same for a nonblocking form, whose collective has its rules: they serve the form at the sizes
 * for which its own rows do not decide. */
static int fill_form(struct built *built, int form, struct cf_row *rows, int used) {
    const struct cf_rules *rules = &built->rules;
    const size_t from = (size_t)cf_collectives[form].collective;
    if (is_given_up(form)) {
        return 0;
    }
    memcpy(&rules->by_size[(size_t)form * CF_BUCKETS], &rules->by_size[from * CF_BUCKETS],
           CF_BUCKETS * sizeof(struct cf_choice *));
    rules->tuned[form] = rules->tuned[from];
    return cf_sources_follow(&built->sources, form) ? 0 : fill_collective(built, form, rows, used);
}

static void free_built(struct built *built) {
    free(built->rules.tuned);
    free(built->rules.by_size);
    free(built->choices);
    free(built);
}

/* NULL when out of memory. */
static struct built *build(const struct cf_sources *sources) {
    const size_t collectives = (size_t)cf_ncollectives;
    const size_t count = (size_t)count_rows(sources) + collectives;
    struct cf_row *rows = calloc(count, sizeof *rows);
    struct built *built = calloc(1, sizeof *built);
    if (built != NULL) {
        built->sources = *sources;
        built->rules.tuned = calloc(collectives, sizeof *built->rules.tuned);
        built->rules.by_size = calloc(collectives * CF_BUCKETS, sizeof *built->rules.by_size);
        built->choices = calloc(count, sizeof *built->choices);
    }
    if (rows == NULL || built == NULL || built->rules.tuned == NULL ||
        built->rules.by_size == NULL || built->choices == NULL) {
        free(rows);
        if (built != NULL) {
            free_built(built);
        }
        return NULL;
    }
    int named = sources->point;
    for (int i = CF_OWN - 1; i >= 0; i--) {
        named = sources->own[i] >= 0 ? sources->own[i] : named;
    }
    built->rules.layout = named >= 0 ? table.layout[named].name : CF_ANY_LAYOUT;
    int used = 0;
    for (int c = 0; c < cf_ncollectives; c++) {
        const bool is_form = cf_collectives[c].collective != c;
        if ((cf_runtime.unreached >> c & 1) == 0) {
            used += (is_form ? fill_form : fill_collective)(built, c, rows, used);
        }
    }
    free(rows);
    return built;
}

bool cf_rules_start(struct cf_winners *winners) {
    if (!cf_table_fill(&table, winners)) {
        return false;
    }
    forced = -1;
    most_on_map = 0;
    any_parts = false;
    job[0] = '\0';
    for (int i = 0; i < table.layouts; i++) {
        const struct cf_table_layout *layout = &table.layout[i];
        const long on_map = (long)layout->nodes * layout->ranks_per_node;
        if (strcmp(layout->name, CF_ANY_LAYOUT) == 0) {
            forced = i;
        }
        if (layout->any && on_map > most_on_map) {
            most_on_map = on_map;
        }
        any_parts = any_parts || strchr(layout->name, CF_JOB_END) != NULL;
    }
    return true;
}

bool cf_rules_know_parts(void) {
    return any_parts;
}

void cf_rules_set_job(const char *placement) {
    (void)snprintf(job, sizeof job, "%s", placement);
}

bool cf_rules_any_for(int size) {
    if (cf_runtime.reproducible) {
        return size > 1;
    }
    /* The nearest point has at most 1.5 times fewer nodes, and ranks on each (table.c). */
    if (size > 1 && size <= 3 * most_on_map) {
        return true;
    }
    for (int i = 0; i < table.layouts; i++) {
        const struct cf_table_layout *layout = &table.layout[i];
        if (layout->any && layout->nodes == 0 && (layout->ranks == 0 || layout->ranks == size)) {
            return true;
        }
    }
    return false;
}

static struct built *find_built(const struct cf_sources *sources) {
    struct built *found = list.first;
    while (found != NULL && !cf_sources_are_alike(&found->sources, sources)) {
        found = found->next;
    }
    return found;
}

bool cf_rules_find(const char *placement, const struct cf_layout *layout,
                   const struct cf_rules **rules) {
    *rules = NULL;
    if (table.layouts == 0 && !cf_runtime.reproducible) {
        return true;
    }
    struct cf_sources sources = {.table = &table, .forced = forced};
    cf_sources_find(&sources, job, placement, layout);
    (void)pthread_mutex_lock(&list.mutex);
    struct built *built = find_built(&sources);
    if (built == NULL) {
        built = build(&sources);
        if (built != NULL) {
            built->next = list.first;
            list.first = built;
        }
    }
    (void)pthread_mutex_unlock(&list.mutex);
    if (built != NULL && built->any) {
        *rules = &built->rules;
    }
    return built != NULL;
}

void cf_rules_stop(void) {
    while (list.first != NULL) {
        struct built *built = list.first;
        list.first = built->next;
        free_built(built);
    }
    cf_table_free(&table);
    forced = -1;
    most_on_map = 0;
    any_parts = false;
    job[0] = '\0';
}
