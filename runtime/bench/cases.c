#include "cases.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "data/facts.h"
#include "oracle.h"
#include "placing.h"
#include "report.h"
#include "winners/choice.h"

enum { VARIANT_SIZE = 1024 };

struct parsed {
    struct cf_span collective, variant, tail; /* tail: layout and options */
    struct problem problem;
    struct cf_choice choice;
};

/* Stores why a line is refused; returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse(char *why, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, DETAIL_SIZE, format, arguments);
    va_end(arguments);
    return false;
}

static struct cf_span whole(const char *text) {
    return (struct cf_span){text, strlen(text)};
}

/* ---- options -------------------------------------------------------------------------------- */

enum case_option { BYTES, TYPE, OP, ROOT, IN_PLACE, UNEVEN, SEED_OF_CASE, NOPTIONS };
static const char *const option_names[NOPTIONS] = {"bytes",    "type",   "op",  "root",
                                                   "in_place", "uneven", "seed"};

static bool is_flag(enum case_option option) {
    return option == IN_PLACE || option == UNEVEN;
}

static bool read_option(enum case_option option, struct cf_span value, struct problem *problem,
                        const struct setting *setting, char *why) {
    int64_t number = 0;
    const int length = (int)value.length;

    switch (option) {
    case BYTES:
        return cf_span_number(value, 0, INT64_MAX, &problem->bytes) ||
               refuse(why, "bytes=%.*s is no number of bytes", length, value.text);
    case TYPE:
        problem->element = types_find(value.text, value.length);
        return problem->element != NULL || refuse(why, "unknown type '%.*s'", length, value.text);
    case OP:
        problem->op = types_find_op(value.text, value.length);
        return problem->op != OP_NONE || refuse(why, "unknown op '%.*s'", length, value.text);
    case ROOT:
        if (!cf_span_number(value, 0, setting->size - 1, &number)) {
            return refuse(why, "root=%.*s is no rank of %d", length, value.text, setting->size);
        }
        problem->root = (int)number;
        return true;
    case SEED_OF_CASE:
        if (!cf_span_number(value, 0, UINT_MAX, &number)) {
            return refuse(why, "seed=%.*s is no number below 2^32", length, value.text);
        }
        problem->seed = (unsigned)number;
        return true;
    default:
        *(option == IN_PLACE ? &problem->in_place : &problem->uneven) = true;
        return true;
    }
}

static bool read_options(struct cf_span rest, struct problem *problem,
                         const struct setting *setting, bool given[NOPTIONS], char *why) {
    while (rest.length > 0) {
        const struct cf_span part = cf_span_cut(&rest, ',');
        const bool has_value = part.length > 0 && memchr(part.text, '=', part.length) != NULL;
        struct cf_span value = part;
        const struct cf_span key = cf_span_cut(&value, '=');
        enum case_option option = BYTES;

        while (option < NOPTIONS && !cf_span_is(key, option_names[option])) {
            option++;
        }
        if (option == NOPTIONS) {
            return refuse(why, "unknown option '%.*s'", (int)key.length, key.text);
        }
        if (given[option]) {
            return refuse(why, "%s stands twice", option_names[option]);
        }
        if (has_value && is_flag(option)) {
            return refuse(why, "%s takes no value", option_names[option]);
        }
        if (!has_value && !is_flag(option)) {
            return refuse(why, "%s needs a value", option_names[option]);
        }
        given[option] = true;
        if (!read_option(option, value, problem, setting, why)) {
            return false;
        }
    }
    return given[BYTES] || refuse(why, "bytes= is missing");
}

static bool options_fit(const struct problem *problem, const bool given[NOPTIONS], char *why) {
    const struct cf_collective_info *info = &cf_collectives[problem->collective];
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];

    if (given[TYPE] && oracle->moves_nothing) {
        return refuse(why, "%s has no type", info->name);
    }
    if (given[OP] && !info->has_op) {
        return refuse(why, "%s has no op", info->name);
    }
    if (given[ROOT] && !info->rooted) {
        return refuse(why, "%s has no root", info->name);
    }
    if (problem->in_place && oracle->in_place == CF_IN_PLACE_NONE) {
        return refuse(why, "%s has no MPI_IN_PLACE", info->name);
    }
    if (problem->in_place && problem->nonblocking) {
        return refuse(why, "a nonblocking case is called twice in a row: no in_place");
    }
    if (problem->uneven && info->varies == CF_VARIES_NO) {
        return refuse(why, "%s has blocks of one size", info->name);
    }
    if (problem->element->whole && (info->varies != CF_VARIES_NO || info->hybrid)) {
        return refuse(why, "%s cannot have type whole", info->name);
    }
    if (oracle->moves_nothing && problem->bytes != CF_UNSIZED_BYTES) {
        return refuse(why, "%s moves nothing: bytes=%d", info->name, CF_UNSIZED_BYTES);
    }
    return true;
}

/* Checks the options together and completes the problem. */
static bool settle_problem(struct problem *problem, const struct setting *setting,
                           const bool given[NOPTIONS], char *why) {
    const struct cf_collective_info *info = &cf_collectives[problem->collective];
    const struct element *element = problem->element;
    const int size = element_bytes(element);

    if (!options_fit(problem, given, why)) {
        return false;
    }
    if (cf_oracles[problem->collective].moves_nothing) {
        return true;
    }
    if (info->has_op && !given[OP]) {
        problem->op = types_default_op(element);
    }
    if (info->has_op && !types_op_fits(element, problem->op)) {
        return refuse(why, "%s has no such op on type %s", info->name, element->name);
    }
    if (problem->bytes % size != 0) {
        return refuse(why, "bytes=%lld is no multiple of %d, the size of type %s",
                      (long long)problem->bytes, size, element->name);
    }
    if (!placing_fits(problem, problem->bytes / size, setting->size)) {
        return refuse(why, "bytes=%lld makes a count above INT_MAX", (long long)problem->bytes);
    }
    problem->count = (int)(problem->bytes / size);
    return true;
}

/* Whether each numeric parameter is below its limit on this layout, so that it differs from 0. */
static bool choice_fits(const struct cf_choice *choice, const struct setting *setting, char *why) {
    const struct cf_variant *variant = choice->variant;
    struct cf_facts facts = {0};

    if (variant == NULL) {
        return true;
    }
    cf_facts_fill(&facts, setting->at, variant->collective, 0, MPI_SUM);
    for (const struct cf_limit *limit = cf_limits; limit->family != NULL; limit++) {
        if (strcmp(limit->family, variant->family) != 0) {
            continue;
        }
        const int below = limit->below(&facts);
        for (int i = 0; i < variant->nparameters; i++) {
            if (strcmp(variant->parameters[i].name, limit->parameter) == 0 &&
                choice->parameter[i] != 0 && choice->parameter[i] >= below) {
                return refuse(why, "%s=%d is not below %s, here %d: it would run as %s=0",
                              limit->parameter, choice->parameter[i], limit->fact, below,
                              limit->parameter);
            }
        }
    }
    return true;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool read_case(struct cf_span rest, const struct setting *setting, struct parsed *parsed,
                      char *why) {
    bool given[NOPTIONS] = {false};
    char reason[DETAIL_SIZE / 2] = "";

    parsed->collective = cf_span_cut(&rest, ':');
    parsed->variant = cf_span_cut(&rest, '@');
    parsed->tail = rest;
    if (rest.length == 0) {
        return refuse(why, "not of the form collective:variant@layout,bytes=N");
    }
    const struct cf_span name = parsed->collective;
    const int named = cf_collective_find(name.text, name.length);
    if (named < 0) {
        return refuse(why, "unknown collective '%.*s'", (int)name.length, name.text);
    }
    const int collective = cf_collectives[named].collective;
    if (!cf_choice_parse(parsed->variant.text, parsed->variant.length, collective, &parsed->choice,
                         reason, sizeof reason)) {
        return refuse(why, "%s", reason);
    }
    if (!cf_span_is(cf_span_cut(&rest, ','), setting->layout)) {
        return refuse(why, "the layout here is %s", setting->layout);
    }
    parsed->choice.measured = INT_MAX; /* never refused for its memory */
    if (!choice_fits(&parsed->choice, setting, why)) {
        return false;
    }
    parsed->problem = (struct problem){.collective = collective,
                                       .nonblocking = named != collective,
                                       .element = types_find("int", 3),
                                       .seed = setting->seed};
    if (!read_options(rest, &parsed->problem, setting, given, why) ||
        !settle_problem(&parsed->problem, setting, given, why)) {
        return false;
    }
    parsed->problem.seed += setting->part;
    return true;
}

/* Joins the parts into a new text. */
static char *join(struct cf_span a, const char *between, struct cf_span b) {
    const size_t size = a.length + strlen(between) + b.length + 1;
    char *text = xmalloc(size);
    snprintf(text, size, "%.*s%s%.*s", (int)a.length, a.text, between, (int)b.length, b.text);
    return text;
}

/* Appends a candidate and takes over text. False if the group has this variant already. */
static bool add_candidate(struct group *group, char *text, const struct cf_choice *choice) {
    char variant[VARIANT_SIZE] = "";
    const size_t size = (size_t)(group->ncandidates + 1) * sizeof *group->candidates;

    cf_choice_format(choice, variant, sizeof variant);
    for (int i = 0; i < group->ncandidates; i++) {
        if (strcmp(group->candidates[i].variant, variant) == 0) {
            free(text);
            return false;
        }
    }
    group->candidates = xrealloc(group->candidates, size);
    group->candidates[group->ncandidates++] = (struct candidate){
        .text = text, .variant = join(whole(variant), "", whole("")), .choice = *choice};
    return true;
}

/* The last group if it has this problem, else a new one. */
static struct group *group_of(struct plan *plan, const struct parsed *parsed) {
    char *text = join(parsed->collective, "@", parsed->tail);
    struct group *last = plan->ngroups > 0 ? &plan->groups[plan->ngroups - 1] : NULL;

    if (last != NULL && strcmp(last->text, text) == 0) {
        free(text);
        return last;
    }
    plan->groups = xrealloc(plan->groups, (size_t)(plan->ngroups + 1) * sizeof *plan->groups);
    last = &plan->groups[plan->ngroups++];
    *last = (struct group){.text = text, .problem = parsed->problem};
    return last;
}

/* Inserts native as first candidate of a group without it. */
static void add_native(struct group *group) {
    const struct cf_choice native = {0};
    struct cf_span tail = whole(group->text);
    const struct cf_span collective = cf_span_cut(&tail, '@');

    if (!add_candidate(group, join(collective, ":native@", tail), &native)) {
        return;
    }
    const struct candidate last = group->candidates[group->ncandidates - 1];
    memmove(&group->candidates[1], &group->candidates[0],
            (size_t)(group->ncandidates - 1) * sizeof last);
    group->candidates[0] = last;
}

static bool read_line(struct plan *plan, struct cf_span line, const struct setting *setting,
                      char *why) {
    struct parsed parsed = {0};

    if (!read_case(line, setting, &parsed, why)) {
        return false;
    }
    return add_candidate(group_of(plan, &parsed), join(line, "", whole("")), &parsed.choice) ||
           refuse(why, "stands twice in its group");
}

int plan_read(struct plan *plan, char *text, const struct setting *setting, bool loud) {
    struct cf_span rest = whole(text);
    char why[DETAIL_SIZE] = "";
    int bad = 0;

    *plan = (struct plan){0};
    while (rest.length > 0) {
        const struct cf_span line = cf_span_cut(&rest, '\n');
        if (line.length == 0 || read_line(plan, line, setting, why)) {
            continue;
        }
        bad++;
        if (loud) {
            fprintf(stderr, "collforge-driver: case '%.*s': %s\n", (int)line.length, line.text,
                    why);
        }
    }
    for (int i = 0; i < plan->ngroups; i++) {
        if (setting->with_native) {
            add_native(&plan->groups[i]);
        }
        plan->ncases += plan->groups[i].ncandidates;
    }
    if (plan->ngroups > 0 || bad > 0) {
        return bad;
    }
    if (loud) {
        fprintf(stderr, "collforge-driver: there are no cases\n");
    }
    return 1;
}

void plan_free(struct plan *plan) {
    for (int i = 0; i < plan->ngroups; i++) {
        struct group *group = &plan->groups[i];
        for (int j = 0; j < group->ncandidates; j++) {
            free(group->candidates[j].text);
            free(group->candidates[j].variant);
            free(group->candidates[j].samples);
            free(group->candidates[j].start_errors);
        }
        free(group->candidates);
        free(group->text);
    }
    free(plan->groups);
    *plan = (struct plan){0};
}
