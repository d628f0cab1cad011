/* Collectives whose results are checked, CALLS of them on a communicator. */
#include <mpi.h>

enum { WORDS = 64 };

static int wrong = 0;

static void sum(MPI_Comm comm) {
    int a[WORDS], b[WORDS], size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < WORDS; i++)
        a[i] = i;
    for (int n = 0; n < CALLS; n++) {
        MPI_Allreduce(a, b, WORDS, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < WORDS; i++)
            wrong += b[i] != i * size;
    }
}
