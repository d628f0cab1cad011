#include "base/span.h"

#include <string.h>

bool cf_span_is(struct cf_span span, const char *word) {
    return strlen(word) == span.length && memcmp(span.text, word, span.length) == 0;
}

struct cf_span cf_span_cut(struct cf_span *rest, char separator) {
    const char *end = rest->length > 0 ? memchr(rest->text, separator, rest->length) : NULL;
    const size_t length = end == NULL ? rest->length : (size_t)(end - rest->text);
    const struct cf_span head = {rest->text, length};
    const size_t used = length + (end != NULL);
    rest->text += used;
    rest->length -= used;
    return head;
}

bool cf_span_number(struct cf_span span, int64_t low, int64_t high, int64_t *number) {
    *number = 0;
    for (size_t i = 0; i < span.length; i++) {
        const char digit = span.text[i];
        if (digit < '0' || digit > '9' || *number > (INT64_MAX - 9) / 10) {
            return false;
        }
        *number = 10 * *number + (digit - '0');
    }
    return span.length > 0 && *number >= low && *number <= high;
}
