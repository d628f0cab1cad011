/* A tool whose MPI_Init calls MPI_Init_thread by its public name, which a library in front of it defines. */
#include <mpi.h>

int MPI_Init(int *argc, char ***argv) {
    int provided;

    return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}
