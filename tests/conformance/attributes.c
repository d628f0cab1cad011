/*
 * Libraries clean up in a delete callback on MPI_COMM_SELF, the first thing that MPI_Finalize does:
 * MPI still works there, collectives and the freeing of communicators included.
 */
#include "conformance.h"

#include <stdlib.h>

enum { WORDS = 20 };

static MPI_Comm kept = MPI_COMM_NULL;
static int order = 0;
static int on_world = 0; /* callbacks to come */

/* With results that need no engine: those of the program are gone by now. */
static void use(MPI_Comm comm, int rank, int size, const char *name) {
    int data[WORDS], sums[WORDS];
    int *all = xmalloc((size_t)size * sizeof *all);
    watch(NULL, name);
    for (int w = 0; w < WORDS; w++)
        data[w] = rank == size - 1 ? w : -1;
    expect(MPI_Bcast(data, WORDS, MPI_INT, size - 1, comm) == MPI_SUCCESS, name);
    expect(MPI_Allreduce(data, sums, WORDS, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS, name);
    for (int w = 0; w < WORDS; w++)
        expect(data[w] == w && sums[w] == size * w, name);
    expect(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm) == MPI_SUCCESS, name);
    for (int r = 0; r < size; r++)
        expect(all[r] == r, name);
    expect(MPI_Barrier(comm) == MPI_SUCCESS, name);
    free(all);
}

static int clean_up(MPI_Comm comm, int keyval, void *value, void *extra) {
    int finalized = 1;
    (void)keyval;
    (void)extra;
    expect(MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized, "finalized in the callback");
    /* Last in, first out. */
    expect((int)(intptr_t)value == order, "order of the callbacks");
    order--;
    use(comm, 0, 1, "self in finalize");
    use(MPI_COMM_WORLD, program.rank, program.size, "world in finalize");
    if (kept != MPI_COMM_NULL) {
        use(kept, program.rank, program.size, "kept communicator in finalize");
        expect(MPI_Comm_free(&kept) == MPI_SUCCESS, "freeing the kept communicator");
    }
    return MPI_SUCCESS;
}

/* On MPI_COMM_WORLD, when MPI may be gone already. */
static int count_down(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm;
    (void)keyval;
    (void)extra;
    --*(int *)value;
    return MPI_SUCCESS;
}

void attributes_finalized(void) {
    expect(on_world == 0 && order == 0, "callbacks in MPI_Finalize");
}

void check_attributes(void) {
    MPI_Comm leaked = MPI_COMM_NULL; /* never freed */
    int cleaning = MPI_KEYVAL_INVALID, counting = MPI_KEYVAL_INVALID;
    if (!program.world_model)
        return;
    must(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_down, &counting, NULL) == MPI_SUCCESS);
    must(MPI_Comm_dup(MPI_COMM_WORLD, &kept) == MPI_SUCCESS);
    must(MPI_Comm_dup(MPI_COMM_WORLD, &leaked) == MPI_SUCCESS);
    on_world = 1;
    must(MPI_Comm_set_attr(MPI_COMM_WORLD, counting, &on_world) == MPI_SUCCESS);
    use(kept, program.rank, program.size, "kept communicator");
    use(leaked, program.rank, program.size, "leaked communicator");
    for (int i = 1; i <= 2; i++) {
        must(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, clean_up, &cleaning, NULL) ==
             MPI_SUCCESS);
        must(MPI_Comm_set_attr(MPI_COMM_SELF, cleaning, (void *)(intptr_t)i) == MPI_SUCCESS);
        must(MPI_Comm_free_keyval(&cleaning) == MPI_SUCCESS);
        order = i;
    }
    use(MPI_COMM_SELF, 0, 1, "self");
    must(MPI_Comm_free_keyval(&counting) == MPI_SUCCESS);
}
