/*
 * What the wrappers find out at a glance (fast.h) against the rules themselves, for random calls of
 * bcast with predefined types and with types that come and go. Prints how many calls a glance knew
 * to be native, how many the rules did, and how many had a variant. Exits 1 where a glance is
 * wrong, or where it does not know what the same call has just shown.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cf.h"
#include "collectives.h"
#include "serve/dispatch.h"
#include "serve/fast.h"

enum { CALLS = 500000 };

#define check(holds)                                                                               \
    ((holds)                                                                                       \
         ? (void)0                                                                                 \
         : (fprintf(stderr, "%s:%d: call %d: %s\n", __FILE__, __LINE__, call, #holds), exit(1)))

static int call, glanced, native, tuned;

static const struct cf_choice *rule(MPI_Comm comm, int64_t bytes) {
    struct cf_state *state = NULL;
    check(cf_state_of(comm, &state) == MPI_SUCCESS);
    return bytes < 0 ? NULL : cf_choose_bytes(state, CF_BCAST, bytes);
}

static void count_one(bool at_a_glance, const struct cf_choice *expected,
                      const struct cf_choice *chosen) {
    check(!at_a_glance || expected == NULL);
    check(chosen == expected);
    glanced += at_a_glance;
    native += expected == NULL;
    tuned += expected != NULL;
}

/* A count whose bytes are spread evenly over the magnitudes, or an odd one. */
static struct cf_call under_way;

static int random_count(int size) {
    /* The last but one, of 8 bytes each, are 64 bytes more than 32 bits can count. */
    static const int odd[] = {0, -1, 1, 1 << 30, (1 << 29) + 8, 0x7FFFFFFF};
    if (rand() % 8 == 0)
        return odd[rand() % 6];
    return (int)((rand() % 2048 + 2048) >> (rand() % 12)) * (1 << rand() % 8) / (size + 1) + 1;
}

static void call_once(MPI_Comm comm, MPI_Datatype type, int size) {
    const int count = random_count(size);
    const bool at_a_glance = cf_is_native(CF_BCAST, comm, count, type);
    const struct cf_choice *expected = rule(comm, (int64_t)count * size);
    count_one(at_a_glance, expected, cf_choose(CF_BCAST, comm, count, type, &under_way));
}

/* The same for the mean of the counts of all ranks, which the glance knows by their sum. */
static void call_mean(MPI_Comm comm, MPI_Datatype type, int size, int ranks) {
    int counts[64];
    int64_t total = 0;
    int least = 0;
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = random_count(size);
        total += counts[rank];
        least = counts[rank] < least ? counts[rank] : least;
    }
    const bool at_a_glance = cf_is_native_mean(CF_BCAST, comm, counts, type);
    const int64_t bytes = least < 0 ? -1 : (total * size + ranks - 1) / ranks;
    count_one(at_a_glance, rule(comm, bytes), cf_choose_mean(CF_BCAST, comm, counts, type, &under_way));
}

/* Right after the long way has said native, a glance knows it. */
static void check_memory(MPI_Comm comm) {
    for (int count = 1; count < 5000; count++) {
        const bool is_native = cf_choose(CF_BCAST, comm, count, MPI_INT, &under_way) == NULL;
        check(cf_is_native(CF_BCAST, comm, count, MPI_INT) == is_native);
    }
}

int main(int argc, char **argv) {
    const MPI_Datatype named[] = {MPI_CHAR, MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT};
    const int sizes[] = {1, 4, 8, 12};
    const bool mean = argc > 1 && argv[1][0] == 'm';
    int ranks = 0;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(ranks <= 64);
    check_memory(MPI_COMM_WORLD);
    srand(7);
    for (call = 0; call < CALLS; call++) {
        if (rand() % 16 > 0) {
            const int i = rand() % 4;
            for (int again = rand() % 3; again >= 0; again--)
                mean ? call_mean(MPI_COMM_WORLD, named[i], sizes[i], ranks)
                     : call_once(MPI_COMM_WORLD, named[i], sizes[i]);
        } else {
            /* Its handle is soon that of a type of another size. */
            const int size = 1 + rand() % 300;
            MPI_Datatype type = MPI_DATATYPE_NULL;
            MPI_Type_contiguous(size, MPI_BYTE, &type);
            MPI_Type_commit(&type);
            mean ? call_mean(MPI_COMM_WORLD, type, size, ranks)
                 : call_once(MPI_COMM_WORLD, type, size);
            MPI_Type_free(&type);
        }
    }
    if (cf_runtime.mode == CF_MODE_ON)
        printf("glanced %d native %d tuned %d\n", glanced, native, tuned);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
