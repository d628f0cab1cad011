/* Pseudo-random numbers as pure functions of a seed, so that every rank can compute those of all
 * ranks. */
#ifndef COLLFORGE_BENCH_DRAW_H_INCLUDED
#define COLLFORGE_BENCH_DRAW_H_INCLUDED

#include <stdint.h>

static inline uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85ebca6bU;
    x = (x ^ (x >> 13)) * 0xc2b2ae35U;
    return x ^ (x >> 16);
}

/* The number for a seed and two indices. */
static inline uint32_t draw(uint32_t seed, uint32_t a, uint32_t b) {
    return mix(mix(mix(seed + 1) + a) + b);
}

#endif
