/*
 * What communicators of many ranks cost a program: the runtime with the stub registry
 * (tests/c/stub), linked to an MPI library that pretends (scale.h).
 *
 *   scale RANKS
 *
 * Prints a line of JSON for each event. COLLFORGE_DB holds a winner of allreduce of 400 bytes for
 * all ranks, RANKS_PER_NODE on a node. Linked with --wrap of malloc and its kin, which count.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives.h"
#include "comm/comm.h"
#include "place/topology.h"
#include "scale.h"

#define must(holds)                                                                                \
    ((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds), abort()))

/* ---- memory ---------------------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *memory);

static long long allocations, kept, most;

static void *note(void *memory) {
    allocations++;
    kept += (long long)malloc_usable_size(memory);
    most = kept > most ? kept : most;
    return memory;
}

void *__wrap_malloc(size_t bytes) {
    return note(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return note(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    kept -= (long long)malloc_usable_size(old);
    return note(__real_realloc(old, bytes));
}

void __wrap_free(void *memory) {
    kept -= (long long)malloc_usable_size(memory);
    __real_free(memory);
}

/* ---- events ---------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static struct {
    struct counts counts;
    long long allocations, kept;
    int runs;
    double microseconds;
} before;

static void begin(void) {
    before.counts = counts;
    before.allocations = allocations;
    before.kept = most = kept;
    before.runs = stub_runs;
    before.microseconds = now();
}

static void end(const char *event) {
    const double microseconds = now() - before.microseconds;
    printf(
        "{\"event\": \"%s\", \"collectives\": %lld, \"steps\": %lld, \"bytes\": %lld, "
        "\"compared\": %lld, \"made\": %lld, \"allocations\": %lld, \"kept\": %lld, "
        "\"most\": %lld, \"runs\": %d, \"microseconds\": %.3f}\n",
        event, counts.collectives - before.counts.collectives, counts.steps - before.counts.steps,
        counts.bytes - before.counts.bytes, counts.compared - before.counts.compared,
        counts.made - before.counts.made, allocations - before.allocations, kept - before.kept,
        most - before.kept, stub_runs - before.runs, microseconds);
}

/* A call of 400 bytes: of the size that has a winner. */
static void call(MPI_Comm comm) {
    int data[100] = {0};
    must(MPI_Allreduce(MPI_IN_PLACE, data, 100, MPI_INT, MPI_BOR, comm) == MPI_SUCCESS);
}

static void measure_call(MPI_Comm comm, const char *event) {
    begin();
    call(comm);
    end(event);
}

static MPI_Comm duplicate(MPI_Comm comm) {
    MPI_Comm made = MPI_COMM_NULL;
    must(PMPI_Comm_dup(comm, &made) == MPI_SUCCESS);
    return made;
}

static void release(MPI_Comm comm) {
    must(MPI_Comm_free(&comm) == MPI_SUCCESS);
}

/* ---- what is measured ------------------------------------------------------------------------ */

static void measure_untuned(int ranks) {
    /* The first entry in a table brings its room. */
    call(MPI_COMM_SELF);
    const MPI_Comm comm = make_comm(ranks / 2, 0, 1);
    measure_call(comm, "untuned, first call");
    measure_call(comm, "untuned, later call");
    begin();
    const MPI_Comm copy = duplicate(comm);
    call(copy);
    end("duplicate of an untuned one, with its first call");
    begin();
    release(copy);
    release(comm);
    end("untuned, both freed");
}

static void measure_tuned(int ranks) {
    const MPI_Comm comm = make_comm(ranks, 0, 1);
    measure_call(comm, "tuned, first call");
    begin();
    const MPI_Comm copy = duplicate(comm);
    end("duplicate");
    measure_call(copy, "duplicate, first call");
    measure_call(comm, "tuned, second call");
    measure_call(comm, "tuned, later call");
    measure_call(copy, "duplicate, second call");
    begin();
    release(comm);
    end("tuned, freed before its duplicate");
    measure_call(copy, "duplicate, later call");
    begin();
    release(copy);
    end("duplicate, freed last");
}

/* A program that makes a communicator for one call; and one that makes it for none. */
static void measure_short_lives(void) {
    begin();
    MPI_Comm copy = duplicate(MPI_COMM_WORLD);
    call(copy);
    release(copy);
    end("duplicate of the world: dup, one call, free");
    begin();
    copy = duplicate(MPI_COMM_WORLD);
    release(copy);
    end("duplicate of the world: dup, free");
}

/* Backwards: no two ranks follow each other as in the world. */
static void measure_reordered(int ranks) {
    const MPI_Comm comm = make_comm(ranks, ranks - 1, -1);
    struct cf_state *state = NULL;
    measure_call(comm, "all ranks backwards, first call");
    must(cf_state_of(comm, &state) == MPI_SUCCESS && state->comm.layout.size == ranks);
    must(state->comm.layout.node_of[RANKS_PER_NODE] == 1);
    release(comm);
}

static void measure_domains(int ranks) {
    struct cf_layout layout;
    must(cf_layout_build(&layout, MPI_COMM_WORLD) == MPI_SUCCESS);
    gather_halves = 1;
    begin();
    must(cf_layout_split_domains(&layout, MPI_COMM_WORLD) == MPI_SUCCESS);
    end("domains of the nodes");
    must(layout.nodes == 2 * ranks / RANKS_PER_NODE &&
         layout.node_of[ranks - 1] + 1 == layout.nodes);
    gather_halves = 0;
    cf_layout_free(&layout);
}

int main(int argc, char **argv) {
    const int ranks = argc > 1 ? atoi(argv[1]) : 0;
    must(ranks > 0 && ranks % (2 * RANKS_PER_NODE) == 0);
    pretend(ranks);
    begin();
    must(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    end("MPI_Init");
    measure_untuned(ranks);
    measure_tuned(ranks);
    measure_reordered(ranks);
    measure_short_lives();
    measure_call(MPI_COMM_WORLD, "the world, first call");
    measure_call(MPI_COMM_WORLD, "the world, later call");
    measure_domains(ranks);
    /* Two communicators that MPI_Finalize meets: a duplicate without a call, and an untuned one. */
    (void)duplicate(MPI_COMM_WORLD);
    call(make_comm(ranks / 2, 0, 1));
    begin();
    must(MPI_Finalize() == MPI_SUCCESS);
    end("MPI_Finalize");
    printf("{\"left\": %lld}\n", kept);
    return 0;
}
