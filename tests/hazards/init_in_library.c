/* A shared library whose constructor starts MPI, uses a communicator, frees it, and whose destructor ends MPI.
 * After microsoft/Microsoft-MPI#59 and open-mpi/ompi#1364 (MPI in global objects). */
#include <mpi.h>
#include <stdio.h>

__attribute__((constructor)) static void begin(void) {
    int sum = 0, one = 1;
    MPI_Comm copy;
    MPI_Init(NULL, NULL);
    if (!FREE)
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    MPI_Comm_free(&copy);
}

__attribute__((destructor)) static void end(void) {
    int done = 0;
    MPI_Finalized(&done);
    if (!done)
        MPI_Finalize();
}

int library_sum(void) {
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}
