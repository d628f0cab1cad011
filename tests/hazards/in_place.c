/* MPI_IN_PLACE where MPI does not allow it: every rank that passes it gets an error. The word names the collective. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100, MOST = 16 };

static int a[COUNT * MOST], b[COUNT * MOST], counts[MOST], places[MOST];

static int call(const char *name) {
    const MPI_Comm world = MPI_COMM_WORLD;

    if (strcmp(name, "reduce") == 0) /* legal on the root */
        return MPI_Reduce(MPI_IN_PLACE, b, COUNT, MPI_INT, MPI_SUM, 0, world);
    if (strcmp(name, "gather") == 0)
        return MPI_Gather(MPI_IN_PLACE, COUNT, MPI_INT, b, COUNT, MPI_INT, 0, world);
    if (strcmp(name, "gatherv") == 0)
        return MPI_Gatherv(MPI_IN_PLACE, COUNT, MPI_INT, b, counts, places, MPI_INT, 0, world);
    return MPI_Allgather(a, COUNT, MPI_INT, MPI_IN_PLACE, COUNT, MPI_INT, world);
}

int main(int argc, char **argv) {
    int rank, size, class = MPI_SUCCESS;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int of = 0; of < size; of++) {
        counts[of] = COUNT;
        places[of] = of * COUNT;
    }
    for (int round = 0; round < 3; round++) /* the first calls of a communicator may be native */
        MPI_Allreduce(a, b, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int err = call(argv[1]);
    if (err != MPI_SUCCESS)
        MPI_Error_class(err, &class);
    printf("rank %d: %s\n", rank, class == MPI_SUCCESS ? "no error" : "error");
    fflush(stdout);
    sleep(1); /* a launcher that sees one rank end may kill the others, */
    _Exit(0); /* of which a root may wait for ever */
}
