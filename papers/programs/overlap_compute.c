#include "overlap_compute.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define BLOCK 64

static double *matrices; /* of this thread: three of `prepared` squared doubles */
static int prepared;
static volatile double sink;
#pragma omp threadprivate(matrices, prepared)

static int least(int a, int b) {
    return a < b ? a : b;
}

static int prepare_mine(int order) {
    const size_t elements = (size_t)order * (size_t)order;
    if (order <= prepared) {
        return 1;
    }
    free(matrices);
    prepared = 0;
    matrices = malloc(3 * elements * sizeof *matrices);
    if (matrices == NULL) {
        return 0;
    }
    /* The thread that computes touches the pages first. Values neither grow nor become denormal. */
    for (size_t i = 0; i < 3 * elements; i++) {
        matrices[i] = 0.5;
    }
    prepared = order;
    return 1;
}

int compute_prepare(int order) {
    int made = 1;
#pragma omp parallel reduction(&& : made)
    made = prepare_mine(order);
    return made;
}

/* c += a b of one block each */
static void multiply_block(const double *restrict a, const double *restrict b, double *restrict c,
                           const int *at, int order) {
    const size_t n = (size_t)order;
    const int rows = least(at[0] + BLOCK, order);
    const int inner = least(at[1] + BLOCK, order);
    const size_t columns = (size_t)least(at[2] + BLOCK, order);
    for (int i = at[0]; i < rows; i++) {
        for (int k = at[1]; k < inner; k++) {
            const double factor = a[(size_t)i * n + (size_t)k];
            for (size_t j = (size_t)at[2]; j < columns; j++) {
                c[(size_t)i * n + j] += factor * b[(size_t)k * n + j];
            }
        }
    }
}

static void multiply(int order) {
    const size_t elements = (size_t)order * (size_t)order;
    double *c = matrices + 2 * elements;
    for (size_t i = 0; i < elements; i++) {
        c[i] = 0;
    }
    for (int i = 0; i < order; i += BLOCK) {
        for (int k = 0; k < order; k += BLOCK) {
            for (int j = 0; j < order; j += BLOCK) {
                multiply_block(matrices, matrices + elements, c, (const int[]){i, k, j}, order);
            }
        }
    }
    /* Every element is read, so none is left out by the compiler. */
    if (c[elements - 1] < 0) {
        sink = c[elements / 2];
    }
}

void compute(int order) {
#pragma omp parallel
    multiply(order);
}

static double seconds_of(int order) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    compute(order);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

double compute_median(int order, int products) {
    double seconds[COMPUTE_MOST_PRODUCTS];
    if (!compute_prepare(order)) {
        return 0;
    }
    (void)seconds_of(order);
    for (int i = 0; i < products; i++) {
        seconds[i] = seconds_of(order);
    }
    return search_median(seconds, products);
}

struct search_goal compute_goal(double seconds, long first) {
    return (struct search_goal){.seconds = seconds,
                                .tolerance = SEARCH_TOLERANCE,
                                .order = 3,
                                .first = first,
                                .least = 2,
                                .most = COMPUTE_MOST_ORDER,
                                .calls = SEARCH_CALLS};
}

void compute_free(void) {
#pragma omp parallel
    {
        free(matrices);
        matrices = NULL;
        prepared = 0;
    }
}
