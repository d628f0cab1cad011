/*
 * The computation of overlap.c in a program without MPI, and then overlap.c in its place: one
 * process, so the same cores, into which no MPI library is loaded before. For ratio (2) of Denis,
 * Jaeger, Jeannot and Reynier (2022), section 3.2.1.
 *
 *   overlap_alone REPETITIONS MICROSECONDS PROGRAM ARGUMENT...
 *
 * Searches the order of the matrices whose product takes this time, by each process for itself.
 * PROGRAM finds it in OVERLAP_ALONE, with the number of products and their median time:
 * "ORDER PRODUCTS SECONDS". No symbol of MPI is used in here, so the linker leaves the library out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "overlap_compute.h"

/* A search_cost. */
static double cost(long order, void *context) {
    const double seconds = compute_median((int)order, *(const int *)context);
    if (seconds <= 0) {
        fprintf(stderr, "no memory for matrices of order %ld\n", order);
        exit(4);
    }
    return seconds;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        return 2;
    }
    const int repetitions = (int)strtol(argv[1], NULL, 10);
    const double wanted = 1e-6 * strtod(argv[2], NULL);
    if (repetitions < 1 || repetitions > COMPUTE_MOST_PRODUCTS || !(wanted > 0)) {
        return 2;
    }
    const struct search_goal goal = compute_goal(wanted, COMPUTE_FIRST_ORDER);
    int products = search_rounds(wanted, SEARCH_TRIES);
    const int order = (int)search_size(&goal, cost, &products).size;
    products = search_rounds(wanted, repetitions);
    char found[64];
    snprintf(found, sizeof found, "%d %d %.9f", order, products, cost(order, &products));
    compute_free();
    if (setenv("OVERLAP_ALONE", found, 1) == 0) {
        execvp(argv[3], &argv[3]);
    }
    perror(argv[3]);
    return 4;
}
