/* mpicc.openmpi -O2 -o build/hybrid_allgather_plain examples/hybrid_allgather_plain.c && mpirun.openmpi --oversubscribe -n 4 build/hybrid_allgather_plain
 * hybrid_allgather.c with MPI-3 shared memory alone: the program of Zhou et al. (2020), Fig. 6. As theirs, it needs
 * consecutive ranks on each node.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000 }; /* doubles of a rank */

/* What the ranks of the node have stored is visible to all of them. */
static void synchronize(MPI_Comm node, MPI_Win window) {
    MPI_Win_sync(window);
    MPI_Barrier(node);
    MPI_Win_sync(window);
}

int main(int argc, char **argv) {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm leaders = MPI_COMM_NULL;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Aint bytes = 0;
    int rank, size, node_rank, node_size, unit;
    int nodes = 0;
    int *counts = NULL;
    int *displs = NULL;
    double *all = NULL;
    double sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_split(MPI_COMM_WORLD, node_rank == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);
    bytes = node_rank == 0 ? size * N * (MPI_Aint)sizeof(double) : 0;
    MPI_Win_allocate_shared(bytes, sizeof(double), MPI_INFO_NULL, node, &all, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &all);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    if (leaders != MPI_COMM_NULL) {
        const int count = node_size * N;
        MPI_Comm_size(leaders, &nodes);
        counts = malloc((size_t)nodes * sizeof *counts);
        displs = malloc((size_t)nodes * sizeof *displs);
        MPI_Allgather(&count, 1, MPI_INT, counts, 1, MPI_INT, leaders);
        displs[0] = 0;
        for (int i = 1; i < nodes; i++) {
            displs[i] = displs[i - 1] + counts[i - 1];
        }
    }
    double *own = all + (MPI_Aint)rank * N;
    for (int i = 0; i < N; i++) {
        own[i] = rank;
    }
    synchronize(node, window);
    if (leaders != MPI_COMM_NULL) {
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, displs, MPI_DOUBLE,
                       leaders);
    }
    synchronize(node, window);
    for (int i = 0; i < size * N; i++) {
        sum += all[i];
    }
    if (rank == 0) {
        printf("the mean rank is %g\n", sum / (size * N));
    }
    free(counts);
    free(displs);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    if (leaders != MPI_COMM_NULL) {
        MPI_Comm_free(&leaders);
    }
    MPI_Comm_free(&node);
    return MPI_Finalize();
}
