/* A package without a window of flags, because all windows are taken, and a variant that asks for one
 * again. */
#include <collforge_hybrid.h>
#include <stdio.h>

enum { COMMS = 132 };

int main(int argc, char **argv) {
    static MPI_Comm comm[COMMS];
    struct collforge_hybrid *hybrid;
    double *piece, x[4] = {1, 2, 3, 4};
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
        MPI_Barrier(comm[i]);
    }
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    collforge_hybrid_alloc(hybrid, sizeof x, &piece);
    collforge_hybrid_allreduce(x, piece, 4, MPI_DOUBLE, MPI_SUM, hybrid);
    if (rank == 0)
        puts(piece[3] == 4 * size ? "passed" : "FAILED");
    collforge_hybrid_free(&hybrid);
    return MPI_Finalize();
}
