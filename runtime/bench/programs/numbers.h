/* Lists of numbers on the command line of a program. */
#ifndef COLLFORGE_BENCH_NUMBERS_H_INCLUDED
#define COLLFORGE_BENCH_NUMBERS_H_INCLUDED

#include <limits.h>
#include <stdlib.h>

enum { MOST_NUMBERS = 64 };

struct numbers {
    int count;
    int value[MOST_NUMBERS];
};

/* Decimal numbers from `least` on, with commas between them; count is 0 where the text is none. */
static inline struct numbers read_numbers(const char *text, int least) {
    struct numbers numbers = {0};
    char *end = NULL;
    while (numbers.count < MOST_NUMBERS) {
        const long value = strtol(text, &end, 10);
        if (value < least || value > INT_MAX)
            return (struct numbers){0};
        numbers.value[numbers.count++] = (int)value;
        if (*end != ',')
            break;
        text = end + 1;
    }
    if (end == text || *end != '\0')
        numbers.count = 0;
    return numbers;
}

static inline int largest(const struct numbers *numbers) {
    int most = 0;
    for (int i = 0; i < numbers->count; i++)
        most = numbers->value[i] > most ? numbers->value[i] : most;
    return most;
}

#endif
