/* mpicc.openmpi -O2 -Iruntime/include -o build/hybrid_allgather examples/hybrid_allgather.c -Lbuild/openmpi -lcollforge -Wl,-rpath,$PWD/build/openmpi && mpirun.openmpi --oversubscribe -n 4 build/hybrid_allgather
 * An allgather whose result exists once per node: the program of Zhou et al. (2020), Fig. 5.
 *
 *   collforge cluster run --mpi openmpi -- build/hybrid_allgather
 */
#include <mpi.h>
#include <stdio.h>

#include "collforge_hybrid.h"

enum { N = 1000 }; /* doubles of a rank */

int main(int argc, char **argv) {
    struct collforge_hybrid *hybrid = NULL;
    double *all = NULL;
    double sum = 0;

    MPI_Init(&argc, &argv);
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    collforge_hybrid_alloc(hybrid, hybrid->size * N * (MPI_Aint)sizeof(double), &all);
    double *own = collforge_hybrid_own(hybrid, all, N * sizeof(double));
    for (int i = 0; i < N; i++) {
        own[i] = hybrid->rank;
    }
    collforge_hybrid_allgather(all, N, MPI_DOUBLE, hybrid);
    for (int i = 0; i < hybrid->size * N; i++) {
        sum += all[i];
    }
    if (hybrid->rank == 0) {
        printf("the mean rank is %g\n", sum / (hybrid->size * N));
    }
    collforge_hybrid_free(&hybrid);
    return MPI_Finalize();
}
