/*
 * The two methods by which a node reduces: Zhou et al. (2020), section 4.4. COLLFORGE_FORCE gives
 * hybrid_allreduce method 1, and hybrid_reduce method 2. Every node has three
 * consecutive ranks.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include "collforge_hybrid.h"

enum { COUNT = 20000 };

typedef int reduce(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);

static int reduced;

/* The library's calls come here. */
int PMPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    reduce *next = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Reduce");
    reduced++;
    return next(from, to, count, type, op, root, comm);
}

static int check(int holds, const char *what) {
    if (!holds)
        fprintf(stderr, "%s\n", what);
    return holds;
}

int main(int argc, char **argv) {
    struct collforge_hybrid *hybrid = NULL;
    int *inputs = NULL;
    int *total = NULL;
    MPI_Init(&argc, &argv);
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    collforge_hybrid_alloc(hybrid, hybrid->size * COUNT * (MPI_Aint)sizeof(int), &inputs);
    collforge_hybrid_alloc(hybrid, COUNT * (MPI_Aint)sizeof(int), &total);
    int *own = collforge_hybrid_own(hybrid, inputs, COUNT * (MPI_Aint)sizeof(int));
    for (int i = 0; i < COUNT; i++)
        own[i] = 1;
    collforge_hybrid_allreduce(own, total, COUNT, MPI_INT, MPI_SUM, hybrid);
    int good = check(total[COUNT - 1] == hybrid->size, "method 1 sums up wrongly");
    good &= check(reduced == 1, "method 1 is not MPI_Reduce");

    /* The last rank of a node changes the input of the second, whose call has begun, before its own
     * call. That is against the rules: it shows where the leader reads that input. */
    collforge_hybrid_barrier(hybrid);
    if (hybrid->node_rank == 2) {
        usleep(200000);
        for (int i = 0; i < COUNT; i++)
            own[i - COUNT] = 101; /* consecutive ranks */
    }
    collforge_hybrid_reduce(own, total, COUNT, MPI_INT, MPI_SUM, 0, hybrid);
    good &= check(hybrid->node != 0 || total[0] == hybrid->size + 100 * hybrid->nodes, "method 2 copies");
    collforge_hybrid_free(&hybrid);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (good)
        puts("passed"); /* every rank */
    return MPI_Finalize();
}
