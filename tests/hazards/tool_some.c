/* A tool that defines some collectives, also one that exchanges its sizes and is nonblocking, not MPI_Init. Preloaded, or linked into one of the executables of a job. */
#include <mpi.h>

int MPI_Barrier(MPI_Comm comm) {
    return PMPI_Barrier(comm);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Igatherv(const void *from, int sent, MPI_Datatype sendtype, void *to, const int *counts, const int *displs,
                 MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request) {
    return PMPI_Igatherv(from, sent, sendtype, to, counts, displs, type, root, comm, request);
}
