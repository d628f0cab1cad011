/* 40 duplicates of MPI_COMM_WORLD, with chunks in different orders on each: MPICH has numbers for 2048
 * communicators. Then as many more of the program's own as it would make. */
#include <mpi.h>
#include <stdio.h>

enum { DUPLICATES = 40, OWN = 1400, WORDS = 512 };

int main(int argc, char **argv) {
    static int a[WORDS], b[2 * WORDS];
    static MPI_Comm own[OWN];
    MPI_Comm comm[DUPLICATES];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < DUPLICATES; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
        MPI_Allreduce(a, b, WORDS, MPI_INT, MPI_SUM, comm[i]);
        MPI_Bcast(a, WORDS, MPI_INT, 0, comm[i]);
        MPI_Reduce(a, b, WORDS, MPI_INT, MPI_SUM, 0, comm[i]);
        MPI_Allgather(a, WORDS, MPI_INT, b, WORDS, MPI_INT, comm[i]);
        MPI_Alltoall(a, WORDS / 2, MPI_INT, b, WORDS / 2, MPI_INT, comm[i]);
    }
    for (int i = 0; i < OWN; i++)
        MPI_Comm_dup(MPI_COMM_SELF, &own[i]);
    for (int i = 0; i < OWN; i++)
        MPI_Comm_free(&own[i]);
    for (int i = 0; i < DUPLICATES; i++)
        MPI_Comm_free(&comm[i]);
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
