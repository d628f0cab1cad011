/* Pieces of a text that is being read. */
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
/* Cuts the text up to the first separator off rest; without one, all of it. */
struct cf_span cf_span_cut(struct cf_span *rest, char separator);
/* Decimal digits only. False for anything else, and for a number that is not from low to high. */
bool cf_span_number(struct cf_span span, int64_t low, int64_t high, int64_t *number);

#endif
