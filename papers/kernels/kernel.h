/*
 * What the examples share: input, arguments, memory, timing, and the line that kernels print
 * (docs/papers.md). Nothing here differs between the versions of a kernel.
 */
#ifndef KERNEL_H_INCLUDED
#define KERNEL_H_INCLUDED

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
 * 2014): every bit of x has a say in every bit of the result. */
static inline uint64_t kernel_mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* A number in [0, 1) that depends on seed, i and j alone, and so not on who computes it. */
static inline double kernel_input(uint64_t seed, uint64_t i, uint64_t j) {
    const uint64_t bits = kernel_mix(kernel_mix(kernel_mix(seed) + i) + j);

    return (double)(bits >> 11) * 0x1p-53;
}

/* Ends the program on all ranks unless what a kernel needs holds. */
static inline void kernel_need(int holds, const char *what) {
    if (!holds) {
        (void)fprintf(stderr, "kernel: needs %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* With -fopenmp, for threads of which one calls MPI. */
static inline void kernel_init(int *argc, char ***argv) {
#ifdef _OPENMP
    int provided = 0;

    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    kernel_need(provided >= MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED");
#else
    MPI_Init(argc, argv);
#endif
}

/* The argument at a place, a number from 1 to a million; usual where it is missing. */
static inline int kernel_argument(int argc, char **argv, int place, int usual) {
    char *end = NULL;

    if (place >= argc) {
        return usual;
    }
    const long value = strtol(argv[place], &end, 10);
    kernel_need(end != argv[place] && *end == 0 && value >= 1 && value <= 1000000,
                "arguments SIZE ITERATIONS, numbers from 1 to 1000000");
    return (int)value;
}

static inline double *kernel_allocate(size_t count) {
    double *memory = malloc(count * sizeof *memory);

    kernel_need(memory != NULL, "more memory than there is");
    return memory;
}

/* Seconds that this rank has spent in collectives and in waits for ranks of its node. */
static double kernel_in_collectives;

#define KERNEL_TIMED(call)                                                                         \
    do {                                                                                           \
        const double kernel_begin = MPI_Wtime();                                                   \
        (void)(call);                                                                              \
        kernel_in_collectives += MPI_Wtime() - kernel_begin;                                       \
    } while (0)

/* The time, when all ranks have come. */
static inline double kernel_start(void) {
    kernel_in_collectives = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

/* On rank 0: the line `kernel version ranks seconds in_collectives checksum`. The first time is the
 * slowest rank's, the second a mean over the ranks, the checksum the sum of the ranks' parts. The
 * name of the source file says kernel and version; with -fopenmp the version is `openmp`. */
#define kernel_report(seconds, part) kernel_print(__FILE__, seconds, part)

static inline void kernel_print(const char *file, double seconds, double part) {
    const char *slash = strrchr(file, '/');
    const char *name = slash == NULL ? file : slash + 1;
    const int kernel = (int)strcspn(name, "_");
#ifdef _OPENMP
    const char *version = "openmp";
    const int length = (int)strlen(version);
#else
    const char *version = name + kernel + 1;
    const int length = (int)strcspn(version, ".");
#endif
    double slowest = 0;
    double sums[2] = {0, 0};
    const double mine[2] = {part, kernel_in_collectives};
    int rank = 0;
    int size = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine, sums, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%.*s %.*s %d %.6f %.6f %.15g\n", kernel, name, length, version, size, slowest,
               sums[1] / size, sums[0]);
    }
}

#endif
