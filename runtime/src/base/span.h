/* Parts of a text that is being parsed. */
#ifndef COLLFORGE_SPAN_H_INCLUDED
#define COLLFORGE_SPAN_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not terminated. */
struct cf_span {
    const char *text;
    size_t length;
};

bool cf_span_is(struct cf_span span, const char *word);
/* Removes the text before the first separator from rest, with the separator, and returns it; all of
 * rest if there is no separator. */
struct cf_span cf_span_cut(struct cf_span *rest, char separator);
/* Parses decimal digits only. False for other text, and for a number not in [low, high]. */
bool cf_span_number(struct cf_span span, int64_t low, int64_t high, int64_t *number);

#endif
