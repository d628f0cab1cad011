/* Calls whose sizes differ: rank r has r + 1 ints; the in-place alltoallv has r + s + 1 for a pair. */
#include <mpi.h>
#include <stddef.h>

enum { RANKS = 4, ROOT = 1 };

int main(int argc, char **argv) {
    int rank, counts[RANKS], displs[RANKS], mine[RANKS], at[RANKS], from[64] = {0}, to[64] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int r = 0; r < RANKS; r++) {
        counts[r] = r + 1;
        displs[r] = 4 * r;
        mine[r] = rank + 1;
        at[r] = 8 * r;
    }
    const int root = rank == ROOT;
    int *all = root ? counts : NULL;
    int *places = root ? displs : NULL;
    /* What is not significant is garbage. */
    MPI_Gatherv(from, rank + 1, MPI_INT, to, all, places, root ? MPI_INT : MPI_DATATYPE_NULL, ROOT,
                MPI_COMM_WORLD);
    MPI_Gatherv(root ? MPI_IN_PLACE : from, root ? -7 : rank + 1,
                root ? MPI_DATATYPE_NULL : MPI_INT, to, all, places, MPI_INT, ROOT, MPI_COMM_WORLD);
    MPI_Scatterv(from, all, places, MPI_INT, to, rank + 1, MPI_INT, ROOT, MPI_COMM_WORLD);
    MPI_Scatterv(from, all, places, MPI_INT, root ? MPI_IN_PLACE : to, root ? -7 : rank + 1,
                 root ? MPI_DATATYPE_NULL : MPI_INT, ROOT, MPI_COMM_WORLD);
    MPI_Alltoallv(from, mine, at, MPI_INT, to, counts, displs, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < RANKS; r++)
        counts[r] = rank + r + 1;
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, to, counts, at, MPI_INT,
                  MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
