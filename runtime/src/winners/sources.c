#include "winners/sources.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime.h"
#include "data/facts.h"
#include "winners/rules.h"

/* The point of the map that a collective follows; -1: none. */
static int point_of(const struct cf_sources *sources, int collective) {
    return (cf_map_needs[collective] & ~sources->placement) == 0 ? sources->point : -1;
}

void cf_sources_list(const struct cf_sources *sources, int collective, int from[CF_SOURCES]) {
    from[0] = sources->forced;
    memcpy(from + 1, sources->own, sizeof sources->own);
    from[CF_SOURCES - 1] = point_of(sources, collective);
}

/* Lists where rows of a collective may be. The first that has some; CF_SOURCES: none. */
static int first_source(const struct cf_sources *sources, int collective, int from[CF_SOURCES]) {
    int count = 0;
    int i = 0;
    cf_sources_list(sources, collective, from);
    for (; i < CF_SOURCES && count == 0; i++) {
        (void)cf_table_rows(sources->table, from[i], collective, &count);
    }
    return count > 0 ? i - 1 : CF_SOURCES;
}

int cf_source_of(const struct cf_sources *sources, int collective) {
    int from[CF_SOURCES];
    const int first = first_source(sources, collective, from);
    return from[first < CF_SOURCES ? first : CF_SOURCES - 1];
}

bool cf_sources_follow(const struct cf_sources *sources, int form) {
    const int collective = cf_collectives[form].collective;
    int from[CF_SOURCES];
    const int own = first_source(sources, form, from);
    return own == CF_SOURCES || first_source(sources, collective, from) < own ||
           (cf_runtime.reproducible && cf_collectives[form].has_op);
}

static void find_own(struct cf_sources *sources, const char *job, const char *placement,
                     const struct cf_layout *layout) {
    char part[2 * CF_LAYOUT_NAME_SIZE];
    const enum cf_sockets sockets = layout->sockets;
    const int threads = layout->threads;
    (void)snprintf(part, sizeof part, "%s%c%s", job, CF_JOB_END, placement);
    for (int i = 0; i < CF_OWN; i++) {
        const bool is_part = i == CF_PART || i == CF_PART_ON_SOCKETS;
        const bool on_sockets = i == CF_PART_ON_SOCKETS || i == CF_EXACT_ON_SOCKETS;
        const bool known = (!is_part || job[0] != '\0') && (!on_sockets || sockets != 0);
        sources->own[i] = known ? cf_table_exact(sources->table, is_part ? part : placement,
                                                 threads, on_sockets ? sockets : CF_SOCKETS_ANY)
                                : -1;
    }
}

static void find_learnt(struct cf_sources *sources, const char *placement,
                        const struct cf_layout *layout) {
    char name[CF_LAYOUT_NAME_SIZE + 16];
    char threads[16] = "";
    if (layout->threads > 1) {
        (void)snprintf(threads, sizeof threads, "x%d", layout->threads);
    }
    for (int confirmed = 0; confirmed < 2; confirmed++) {
        (void)snprintf(name, sizeof name, "%c%s%s", confirmed ? CF_CONFIRMED : CF_REFUTED,
                       placement, threads);
        int found = cf_table_exact(sources->table, name, 1, layout->sockets);
        if (found < 0) {
            found = cf_table_exact(sources->table, name, 1, CF_SOCKETS_ANY);
        }
        sources->learnt[confirmed] = found;
    }
}

void cf_sources_find(struct cf_sources *sources, const char *job, const char *placement,
                     const struct cf_layout *layout) {
    sources->point = cf_table_nearest(sources->table, layout);
    sources->learnt[0] = sources->learnt[1] = -1;
    find_own(sources, job, placement, layout);
    if (sources->point >= 0) {
        find_learnt(sources, placement, layout);
        const bool even = layout->min_node_size == layout->max_node_size;
        sources->size = layout->size;
        sources->placement =
            (layout->consecutive ? CF_NEEDS_CONSECUTIVE : 0) | (even ? CF_NEEDS_EVEN : 0);
    }
    if (cf_runtime.reproducible) {
        cf_facts_fill(&sources->facts, layout, 0, CF_UNSIZED_BYTES, MPI_OP_NULL);
    }
}

static bool facts_are_alike(const struct cf_facts *a, const struct cf_facts *b) {
    return a->size == b->size && a->nodes == b->nodes && a->min_node_size == b->min_node_size &&
           a->max_node_size == b->max_node_size && a->consecutive == b->consecutive &&
           a->threads == b->threads;
}

bool cf_sources_are_alike(const struct cf_sources *a, const struct cf_sources *b) {
    return memcmp(a->own, b->own, sizeof a->own) == 0 &&
           memcmp(a->learnt, b->learnt, sizeof a->learnt) == 0 && a->point == b->point &&
           a->size == b->size && a->placement == b->placement &&
           facts_are_alike(&a->facts, &b->facts);
}
