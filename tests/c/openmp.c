/*
 * Collectives of a program whose processes have OpenMP threads: openmp SEED STEPS MODE... The modes run in turn, and each
 * says when it begins.
 *
 *   outside  all ranks call outside a parallel region
 *   mixed    in every step some ranks call inside one: they have no idle threads, and take other paths
 *   workers  two threads of each rank call at once, each on a communicator of its own
 *
 * Every step is a random collective of a random size, after a random delay, and its results are checked. Prints what
 * went wrong, or "passed". At MPI_THREAD_MULTIPLE for workers, else MPI_THREAD_FUNNELED.
 */
#include <mpi.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 5000, WORKERS = 2, KINDS = 6 };

struct caller {
    MPI_Comm comm;
    int rank, size;
    unsigned random; /* alike on all ranks */
    unsigned own;    /* this rank's */
    double *send, *receive;
    int wrong;
};

static unsigned draw(unsigned *state, unsigned below) {
    *state = *state * 1664525U + 1013904223U;
    return (*state >> 8) % below;
}

static double value(int rank, int at) {
    return (rank + 1) * 1000 + at % 997;
}

static double sum(int size, int at) {
    return 1000.0 * size * (size + 1) / 2 + (double)size * (at % 997);
}

static void expect(struct caller *c, const char *what, int at, double found, double wanted) {
    if (found != wanted && c->wrong++ == 0) {
        printf("rank %d: %s, element %d is %g, should be %g\n", c->rank, what, at, found, wanted);
    }
}

static void call(struct caller *c, int kind, int count, int root) {
    const int all = count * c->size;
    double *out = c->receive;

    for (int i = 0; i < all; i++) {
        c->send[i] = value(c->rank, i);
        out[i] = -1;
    }
    switch (kind) {
    case 0:
        MPI_Allreduce(c->send, out, count, MPI_DOUBLE, MPI_SUM, c->comm);
        for (int i = 0; i < count; i++)
            expect(c, "allreduce", i, out[i], sum(c->size, i));
        break;
    case 1:
        MPI_Bcast(c->rank == root ? c->send : out, count, MPI_DOUBLE, root, c->comm);
        for (int i = 0; i < count && c->rank != root; i++)
            expect(c, "bcast", i, out[i], value(root, i));
        break;
    case 2:
        MPI_Reduce(c->send, out, count, MPI_DOUBLE, MPI_SUM, root, c->comm);
        for (int i = 0; i < count && c->rank == root; i++)
            expect(c, "reduce", i, out[i], sum(c->size, i));
        break;
    case 3:
        MPI_Allgather(c->send, count, MPI_DOUBLE, out, count, MPI_DOUBLE, c->comm);
        for (int i = 0; i < all; i++)
            expect(c, "allgather", i, out[i], value(i / count, i % count));
        break;
    case 4:
        MPI_Alltoall(c->send, count, MPI_DOUBLE, out, count, MPI_DOUBLE, c->comm);
        for (int i = 0; i < all; i++)
            expect(c, "alltoall", i, out[i], value(i / count, c->rank * count + i % count));
        break;
    default:
        MPI_Reduce_scatter_block(c->send, out, count, MPI_DOUBLE, MPI_SUM, c->comm);
        for (int i = 0; i < count; i++)
            expect(c, "reduce_scatter_block", i, out[i], sum(c->size, c->rank * count + i));
        break;
    }
}

static void delay(struct caller *c) {
    const struct timespec pause = {.tv_nsec = (long)draw(&c->own, 300000)};

    if (draw(&c->own, 3) == 0) {
        nanosleep(&pause, NULL);
    }
}

static void step(struct caller *c, bool mixed) {
    const int kind = (int)draw(&c->random, KINDS);
    const int count = 1 + (int)draw(&c->random, draw(&c->random, 2) == 0 ? 20 : MOST);
    const int root = (int)draw(&c->random, (unsigned)c->size);

    delay(c);
    if (mixed && draw(&c->own, 2) == 0) {
#pragma omp parallel num_threads(2)
        {
#pragma omp master
            call(c, kind, count, root);
        }
    } else {
        call(c, kind, count, root);
    }
}

static struct caller open_caller(unsigned seed) {
    struct caller c = {.random = seed};

    MPI_Comm_dup(MPI_COMM_WORLD, &c.comm);
    MPI_Comm_rank(c.comm, &c.rank);
    MPI_Comm_size(c.comm, &c.size);
    c.own = seed + 7919U * (unsigned)(c.rank + 1);
    c.send = malloc((size_t)MOST * (size_t)c.size * sizeof *c.send);
    c.receive = malloc((size_t)MOST * (size_t)c.size * sizeof *c.receive);
    if (c.send == NULL || c.receive == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return c;
}

static void close_caller(struct caller *c) {
    free(c->send);
    free(c->receive);
    MPI_Comm_free(&c->comm);
}

static int play(int rank, const char *mode, unsigned seed, int steps) {
    const bool mixed = strcmp(mode, "mixed") == 0;
    struct caller callers[WORKERS];
    int wrong = 0;

    if (rank == 0)
        fprintf(stderr, "case: %s\n", mode);
    for (int i = 0; i < WORKERS; i++) {
        callers[i] = open_caller(seed + (unsigned)i);
        step(&callers[i], false); /* communicators of our own are made by the first thread */
    }
    if (strcmp(mode, "workers") == 0) {
#pragma omp parallel num_threads(WORKERS)
        for (int i = 0; i < steps; i++)
            step(&callers[omp_get_thread_num()], false);
    } else {
        for (int i = 0; i < steps; i++)
            step(&callers[i % WORKERS], mixed);
    }
    for (int i = 0; i < WORKERS; i++) {
        wrong += callers[i].wrong;
        close_caller(&callers[i]);
    }
    return wrong;
}

int main(int argc, char **argv) {
    int provided = 0;
    int rank = 0;
    int wrong = 0;
    int total = 0;

    if (argc < 4) {
        return 2;
    }
    const bool workers = strcmp(argv[3], "workers") == 0;
    const int level = workers ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    MPI_Init_thread(&argc, &argv, level, &provided);
    wrong = provided != level; /* also where the preloaded library has raised it */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 3; i < argc; i++)
        wrong += play(rank, argv[i], (unsigned)strtoul(argv[1], NULL, 10), atoi(argv[2]));
    MPI_Allreduce(&wrong, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        puts(total == 0 ? "passed" : "failed");
    }
    return MPI_Finalize() == MPI_SUCCESS && total == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
