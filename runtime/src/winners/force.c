#include "winners/force.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "winners/choice.h"

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
        if (!cf_choice_parse(text, length, c, &choice, why, whysize))
            continue;
        any = true;
        if (forced[c].how != FORCED_BY_NAME)
            forced[c] = (struct forced){FORCED_FOR_ALL, choice};
    }
    if (!any)
        (void)snprintf(why, whysize, "no collective has the variant '%.*s'",
                       length > 80 ? 80 : (int)length, text);
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
    if (named == 1 && *text == '*')
        return force_all(variant, variant_length, forced, why, whysize);
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
        if (!force_entry(entry, length, forced, why, whysize))
            return false;
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
    if (forced == NULL)
        return false;
    if (!force_entries(text, forced, why, whysize))
        goto cleanup;
    good = true;
    for (int c = 0; c < cf_ncollectives && good; c++)
        if (forced[c].how != FORCED_NOT)
            good = cf_winners_add(winners, CF_ANY_LAYOUT, c, 1, &forced[c].choice);
    if (!good)
        winners->count = before;
cleanup:
    free(forced);
    return good;
}
