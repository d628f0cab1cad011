/* Reductions of numbers whose sum depends on the order: the same bits every time. */
#include "conformance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 700, AGAIN = 20, SEED = 4711 };

/* Whether all ranks get the one result. */
static bool is_everywhere(const struct collective *collective) {
    return !collective->rooted && !collective->prefix && collective->in_blocks(0, 0, 2) == 1;
}

/* Of many magnitudes and both signs. */
static void fill(double *send, size_t words) {
    for (size_t i = 0; i < words; i++) {
        const uint64_t random = mix(mix(SEED + (unsigned)program.rank) + i);
        const double mantissa = (double)(int64_t)(random >> 11) / 9007199254740992.0 - 0.5;
        send[i] = ldexp(mantissa, (int)(random % 60) - 30);
    }
}

static uint64_t hash(const double *words, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &words[i], sizeof bits);
        sum = mix(sum + bits);
    }
    return sum;
}

/* One line says the bits of all ranks; it must be the same in the next launch. */
static void report(const char *name, int count, uint64_t mine) {
    uint64_t all = 0;
    mine = mix(mine + (unsigned)program.rank);
    must(PMPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, program.control) == MPI_SUCCESS);
    if (program.rank == 0)
        (void)printf("bits %s count=%d %016llx\n", name, count, (unsigned long long)all);
}

static void repeat(const struct collective *collective, int count) {
    const struct place *world = &program.world;
    struct plain plain;
    uint64_t first = 0, of_root = 0;
    plain_create(&plain, 2 * count, world->size);
    double *send = (double *)plain.send, *recv = (double *)plain.recv;
    const size_t words = plain.words / 2;
    fill(send, words);
    for (int r = 0; r < world->size; r++)
        plain.counts[r] = count;
    struct cf_args arguments = plain_arguments(&plain, world->comm, world->size - 1);
    arguments.recvtype = MPI_DOUBLE;
    for (int i = 0; i < AGAIN; i++) {
        watch(NULL, collective->name);
        memset(recv, 0, words * sizeof *recv);
        expect(collective->call(&arguments) == MPI_SUCCESS, collective->name);
        const bool defined = !collective->prefix || world->rank > 0;
        const uint64_t now = defined ? hash(recv, words) : 0;
        first = i == 0 ? now : first;
        expect(now == first, collective->name);
    }
    of_root = first;
    must(PMPI_Bcast(&of_root, 1, MPI_UINT64_T, 0, program.control) == MPI_SUCCESS);
    expect(!is_everywhere(collective) || of_root == first, collective->name);
    report(collective->name, count, first);
    plain_free(&plain);
}

void check_bits(void) {
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]) || !collectives[c].reduces)
            continue;
        repeat(&collectives[c], 3);
        repeat(&collectives[c], WORDS);
    }
}
