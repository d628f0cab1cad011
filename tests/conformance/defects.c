/*
 * What the native libraries get wrong: each defect was seen in a native run of this program. Such a
 * call is made only where a variant, not the library, answers it.
 */
#define _GNU_SOURCE
#include "conformance.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct defect {
    const char *collective;
    const char *reason;
    bool (*hits)(const struct call *call);
    bool
        in_components; /* also where a variant answers: it calls the library with these arguments */
};

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION == 40002300

static bool in_place_at_another_root(const struct call *call) {
    const size_t bytes = (size_t)call->count * shape_bytes(call->shape);
    return call->in_place && call->root != 0 && bytes > 2048;
}

static bool order_and_holes(const struct call *call) {
    return !call->op->commutative && call->place->size > 1;
}

static bool null_result(const struct call *call) {
    return call->garbage == GARBAGE_NULL && !call->in_place;
}

/* A double and an int: a message from such a type, received as packed bytes, is cut off. Ranks
 * forward what several others have sent. */
static bool mixed_words(const struct call *call) {
    const struct type *type = call->shape->types[0];
    const size_t bytes = (size_t)call->count * shape_bytes(call->shape);
    return type->words == 2 && type->kinds[0] != type->kinds[1] &&
           bytes * (size_t)call->place->size > 4096;
}

static bool mixed_words_in_place(const struct call *call) {
    return call->in_place && mixed_words(call);
}

static bool several_types(const struct call *call) {
    const size_t bytes = (size_t)call->count * shape_bytes(call->shape);
    return call->shape->ntypes > 1 && !call->in_place && bytes > 8192;
}

static bool displaced_alone(const struct call *call) {
    return call->place->size == 1 && call->placement != PLACED_PACKED && !call->in_place;
}

static const struct defect defects[] = {
    {"allgatherv", "its ring cuts blocks into elements, whatever the type", several_types, false},
    {"allgatherv", "ignores the displacement on one rank", displaced_alone, false},
    {"reduce", "in place at a root other than 0 it crashes above 2 KiB (issue 6540)",
     in_place_at_another_root, false},
    {"reduce_scatter", "wrong results and broken heaps for ops that do not commute and holes",
     order_and_holes, false},
    {"reduce_scatter_block", "wrong results and broken heaps for ops that do not commute and holes",
     order_and_holes, false},
    {"exscan", "an error for a null recvbuf on rank 0, where it is not significant", null_result,
     true},
    {"gather", "large messages of doubles and ints are truncated", mixed_words, false},
    {"scatter", "large messages of doubles and ints are truncated", mixed_words, false},
    {"alltoall", "large messages of doubles and ints are truncated", mixed_words_in_place, false},
    {"alltoallv", "large messages of doubles and ints are truncated", mixed_words_in_place, false},
    {"scatter", "crashes where the root has more than 2^31 bytes", NULL, false},
    {NULL, NULL, NULL, false},
};

#elif defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION == 4

static bool several_types(const struct call *call) {
    return call->shape->ntypes > 1 && !call->in_place;
}

static bool user_op(const struct call *call) {
    return call->op->user && call->strict;
}

static bool negative_bound_in_ring(const struct call *call) {
    const struct type *type = call->shape->types[0];
    const size_t bytes = (size_t)call->count * shape_bytes(call->shape);
    return bytes >= 4096 && (type->offsets[0] < 0 || type->offsets[1] < 0);
}

static bool user_op_on_nothing(const struct call *call) {
    return user_op(call) && call->spread != SPREAD_EVEN;
}

static const struct defect defects[] = {
    {"allgatherv", "hangs: each rank chooses by its own send type x the receive counts",
     several_types, false},
    {"allreduce", "its ring writes before its temporary where the true lower bound is negative",
     negative_bound_in_ring, false},
    {"reduce_scatter_block", "user-defined ops are handed no elements", user_op, false},
    {"reduce_scatter", "user-defined ops are handed no elements", user_op_on_nothing, false},
    {NULL, NULL, NULL, false},
};

#else

static const struct defect defects[] = {{NULL, NULL, NULL, false}};

#endif

enum { NDEFECTS = sizeof defects / sizeof *defects };
static atomic_long skipped[NDEFECTS];

/* Blocks' elements, as the runtime reckons them for a choice. */
static size_t elements_for_choice(const struct call *call) {
    const int size = call->place->size;
    size_t total = 0;
    if (call->collective->sized == SIZED_BLOCK)
        return (size_t)call->count;
    for (int r = 0; r < size; r++)
        total += (size_t)call_block(call, r, r);
    return (total + (size_t)size - 1) / (size_t)size;
}

bool runtime_choice(MPI_Comm comm, const char *collective, size_t bytes, char *name, size_t size) {
    static int (*choice)(MPI_Comm, const char *, size_t, char *, size_t) = NULL;
    if (choice == NULL)
        *(void **)&choice = dlsym(RTLD_DEFAULT, "collforge_choice");
    return choice != NULL && choice(comm, collective, bytes, name, size) == MPI_SUCCESS;
}

/* Whether libcollforge.so is there and would not hand this call to the library. Not known where the
 * sizes are exchanged at times only, nor with settings by which it may hand any call over, as with
 * little memory: CONFORMANCE_MAYBE_NATIVE. */
static bool is_served(const struct call *call) {
    char name[256] = "native";
    if (getenv("CONFORMANCE_MAYBE_NATIVE") != NULL)
        return false;
    if (call->collective->sized == SIZED_EXCHANGED && getenv("COLLFORGE_FORCE") == NULL)
        return false;
    const size_t bytes = call->collective->sized == SIZED_NONE
                             ? 1
                             : elements_for_choice(call) * shape_bytes(call->shape);
    return bytes > 0 &&
           runtime_choice(call->place->comm, call->collective->name, bytes, name, sizeof name) &&
           strcmp(name, "native") != 0;
}

bool is_hit_by_defect(const struct call *call) {
    for (int i = 0; defects[i].reason != NULL; i++) {
        const struct defect *defect = &defects[i];
        if (strcmp(defect->collective, call->collective->name) != 0 || defect->hits == NULL ||
            !defect->hits(call))
            continue;
        if (!defect->in_components && is_served(call))
            continue;
        atomic_fetch_add(&skipped[i], 1);
        return true;
    }
    return false;
}

bool is_hit_when_huge(const struct collective *collective) {
    for (int i = 0; defects[i].reason != NULL; i++) {
        if (strcmp(defects[i].collective, collective->name) == 0 && defects[i].hits == NULL) {
            atomic_fetch_add(&skipped[i], 1);
            return true;
        }
    }
    return false;
}

void print_defects(void) {
    for (int i = 0; defects[i].reason != NULL; i++)
        if (skipped[i] > 0)
            (void)printf("skipped by rank 0: %ld calls of %s: %s\n", (long)skipped[i],
                         defects[i].collective, defects[i].reason);
}
