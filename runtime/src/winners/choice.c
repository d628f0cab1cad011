/*
 * The text form of a choice, used in case strings, stored winners and COLLFORGE_FORCE:
 *
 *   choice     = "native" | family | family "[" parameter *("," parameter) "]"
 *   parameter  = name "=" value
 */
#include "winners/choice.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cf.h"
#include "base/span.h"

/* Precision for "%.*s": limits how much of a wrong text a message shows. */
static int span_shown(struct cf_span span) {
    return span.length > 80 ? 80 : (int)span.length;
}

__attribute__((format(printf, 3, 4))) static bool fail(char *why, size_t size, const char *format,
                                                       ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

int cf_collective_find(const char *name, size_t length) {
    const struct cf_span span = {name, length};
    for (int c = 0; c < cf_ncollectives; c++) {
        if (cf_span_is(span, cf_collectives[c].name)) {
            return c;
        }
    }
    return -1;
}

/* Of a nonblocking form: one that can be suspended. */
static const struct cf_variant *find_variant(struct cf_span family, int index) {
    const int collective = cf_collectives[index].collective;
    for (int v = 0; v < cf_nvariants; v++) {
        if (cf_variants[v]->collective == collective &&
            (collective == index || !cf_variants[v]->only_blocking) &&
            cf_span_is(family, cf_variants[v]->family)) {
            return cf_variants[v];
        }
    }
    return NULL;
}

static int find_parameter(const struct cf_variant *variant, struct cf_span name) {
    for (int i = 0; i < variant->nparameters; i++) {
        if (cf_span_is(name, variant->parameters[i].name)) {
            return i;
        }
    }
    return -1;
}

/* Accepts 0, and the parameter's minimum to maximum. */
static bool parse_number(const struct cf_parameter *parameter, struct cf_span value, int *out) {
    int64_t number = 0;
    const bool good = cf_span_number(value, 0, parameter->maximum, &number);
    *out = (int)number;
    return good && (number == 0 || number >= parameter->minimum);
}

static bool parse_value(const struct cf_parameter *parameter, struct cf_span value, int *out) {
    if (parameter->symbols == NULL) {
        return parse_number(parameter, value, out);
    }
    for (int i = 0; i < parameter->nvalues; i++) {
        if (cf_span_is(value, parameter->symbols[i])) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* Appends the legal values of a parameter to the message, as far as they fit; returns false. */
static bool tell_values(const struct cf_parameter *parameter, char *why, size_t size) {
    if (parameter->symbols == NULL) {
        const size_t used = strlen(why);
        (void)fail(why + used, size - used, "; it has 0 and numbers from %d ", parameter->minimum);
        const size_t more = strlen(why);
        return parameter->maximum == INT_MAX
                   ? fail(why + more, size - more, "on")
                   : fail(why + more, size - more, "to %d", parameter->maximum);
    }
    for (int i = 0; i < parameter->nvalues; i++) {
        const size_t used = strlen(why);
        (void)fail(why + used, size - used, "%s %s", i == 0 ? "; it has" : ",",
                   parameter->symbols[i]);
    }
    return false;
}

static bool parse_parameters(struct cf_span rest, struct cf_choice *choice, char *why,
                             size_t whysize) {
    const struct cf_variant *variant = choice->variant;
    bool given[CF_MAX_PARAMETERS] = {false};
    do {
        struct cf_span value = cf_span_cut(&rest, ',');
        const struct cf_span name = cf_span_cut(&value, '=');
        const int i = find_parameter(variant, name);
        if (i < 0) {
            return fail(why, whysize, "%s has no parameter '%.*s'", variant->family,
                        span_shown(name), name.text);
        }
        if (given[i]) {
            return fail(why, whysize, "parameter %s is given twice", variant->parameters[i].name);
        }
        given[i] = true;
        if (!parse_value(&variant->parameters[i], value, &choice->parameter[i])) {
            (void)fail(why, whysize, "parameter %s has no value '%.*s'",
                       variant->parameters[i].name, span_shown(value), value.text);
            return tell_values(&variant->parameters[i], why, whysize);
        }
    } while (rest.length > 0);
    return true;
}

bool cf_choice_parse(const char *text, size_t length, int collective, struct cf_choice *choice,
                     char *why, size_t whysize) {
    struct cf_span rest = {text, length};
    const bool bracketed = memchr(text, '[', length) != NULL;
    const struct cf_span family = cf_span_cut(&rest, '[');

    memset(choice, 0, sizeof *choice);
    if (!bracketed && cf_span_is(family, "native")) {
        return true;
    }
    choice->variant = find_variant(family, collective);
    if (choice->variant == NULL) {
        return fail(why, whysize, "there is no family '%.*s' for %s", span_shown(family),
                    family.text, cf_collectives[collective].name);
    }
    for (int i = 0; i < choice->variant->nparameters; i++) {
        const struct cf_parameter *parameter = &choice->variant->parameters[i];
        choice->parameter[i] = parameter->symbols == NULL ? parameter->values[0] : 0;
    }
    if (!bracketed) {
        return true;
    }
    if (rest.length < 2 || rest.text[rest.length - 1] != ']' || rest.text[rest.length - 2] == ',') {
        return fail(why, whysize, "'%.*s' is not of the form family[name=value,...]",
                    (int)(length > 80 ? 80 : length), text);
    }
    rest.length--;
    return parse_parameters(rest, choice, why, whysize);
}

void cf_choice_format(const struct cf_choice *choice, char *text, size_t size) {
    const struct cf_variant *variant = choice->variant;
    if (variant == NULL) {
        (void)snprintf(text, size, "native");
        return;
    }
    size_t used = (size_t)snprintf(text, size, "%s", variant->family);
    for (int i = 0; i < variant->nparameters && used < size; i++) {
        const struct cf_parameter *parameter = &variant->parameters[i];
        const char before = i == 0 ? '[' : ',';
        const int value = choice->parameter[i];
        used += (size_t)(parameter->symbols == NULL
                             ? snprintf(text + used, size - used, "%c%s=%d", before,
                                        parameter->name, value)
                             : snprintf(text + used, size - used, "%c%s=%s", before,
                                        parameter->name, parameter->symbols[value]));
    }
    if (variant->nparameters > 0 && used < size) {
        (void)snprintf(text + used, size - used, "]");
    }
}

/* ---- COLLFORGE_FORCE --------------------------------------------------------------------------
 */

/* The choice forced on one collective so far. */
struct forced {
    enum { FORCED_NOT, FORCED_FOR_ALL, FORCED_BY_NAME } how;
    struct cf_choice choice;
};

static bool force_all(const char *text, size_t length, struct forced *forced, char *why,
                      size_t whysize) {
    bool any = false;
    for (int c = 0; c < cf_ncollectives; c++) {
        struct cf_choice choice;
        const bool is_form = cf_collectives[c].collective != c; /* follows the collective */
        if (is_form || !cf_choice_parse(text, length, c, &choice, why, whysize)) {
            continue;
        }
        any = true;
        if (forced[c].how != FORCED_BY_NAME) {
            forced[c] = (struct forced){FORCED_FOR_ALL, choice};
        }
    }
    if (!any) {
        (void)snprintf(why, whysize, "no collective has the variant '%.*s'",
                       length > 80 ? 80 : (int)length, text);
    }
    return any;
}

static bool force_entry(const char *text, size_t length, struct forced *forced, char *why,
                        size_t whysize) {
    const char *equals = memchr(text, '=', length);
    const size_t named = equals == NULL ? 0 : (size_t)(equals - text);
    if (named == 0) {
        (void)snprintf(why, whysize, "'%.*s' is not of the form collective=variant",
                       length > 80 ? 80 : (int)length, text);
        return false;
    }
    const char *variant = equals + 1;
    const size_t variant_length = length - named - 1;
    if (named == 1 && *text == '*') {
        return force_all(variant, variant_length, forced, why, whysize);
    }
    const int collective = cf_collective_find(text, named);
    if (collective < 0) {
        (void)snprintf(why, whysize, "there is no collective '%.*s'", named > 80 ? 80 : (int)named,
                       text);
        return false;
    }
    forced[collective].how = FORCED_BY_NAME;
    return cf_choice_parse(variant, variant_length, collective, &forced[collective].choice, why,
                           whysize);
}

static bool force_entries(const char *text, struct forced *forced, char *why, size_t whysize) {
    for (const char *entry = text; *entry != '\0';) {
        const size_t length = strcspn(entry, ";");
        if (!force_entry(entry, length, forced, why, whysize)) {
            return false;
        }
        entry += length;
        entry += *entry == ';';
    }
    return true;
}

bool cf_force_parse(const char *text, struct cf_winners *winners, char *why, size_t whysize) {
    struct forced *forced = calloc((size_t)cf_ncollectives, sizeof *forced);
    const int before = winners->count;
    bool good = false;
    (void)snprintf(why, whysize, "out of memory");
    if (forced == NULL) {
        return false;
    }
    if (!force_entries(text, forced, why, whysize)) {
        goto cleanup;
    }
    good = true;
    for (int c = 0; c < cf_ncollectives && good; c++) {
        if (forced[c].how != FORCED_NOT) {
            good = cf_winners_add(winners, CF_ANY_LAYOUT, c, 1, &forced[c].choice);
        }
    }
    if (!good) {
        winners->count = before;
    }
cleanup:
    free(forced);
    return good;
}
