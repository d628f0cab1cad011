/* A few calls by the handles and constants of whatever mpi.h it is compiled with. */
#include <mpi.h>
#include <stdio.h>

enum { WORDS = 1000 };

int main(int argc, char **argv) {
    static int a[WORDS], b[WORDS];
    int rank, size, bad = 0;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int words = 1; words <= WORDS; words *= 10) {
        for (int w = 0; w < words; w++)
            a[w] = rank + w;
        MPI_Allreduce(a, b, words, MPI_INT, MPI_SUM, comm);
        MPI_Allreduce(MPI_IN_PLACE, a, words, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        for (int w = 0; w < words; w++)
            bad += b[w] != size * w + size * (size - 1) / 2 || a[w] != size - 1 + w;
        MPI_Bcast(a, words, MPI_INT, 0, comm);
        MPI_Barrier(comm);
    }
    MPI_Comm_free(&comm);
    bad += comm != MPI_COMM_NULL;
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(bad ? "FAILED" : "passed");
    MPI_Finalize();
    return bad != 0;
}
