/* A tool that defines MPI_Comm_free and MPI_Comm_disconnect alone, and calls PMPI's. */
#include <mpi.h>

int MPI_Comm_free(MPI_Comm *comm) {
    return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm) {
    return PMPI_Comm_disconnect(comm);
}
