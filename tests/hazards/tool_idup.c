/* A tool that defines MPI_Comm_idup alone, and calls PMPI's. */
#include <mpi.h>

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request) {
    return PMPI_Comm_idup(comm, made, request);
}
