/*
 * An MPI library with a fault, to be preloaded under the conformance program: CONFORMANCE_FAULT
 * names which. Each is one that some check must find.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_fault(const char *name) {
    const char *fault = getenv("CONFORMANCE_FAULT");
    return fault != NULL && strcmp(fault, name) == 0;
}

static int rank_in(MPI_Comm comm) {
    int rank = -1;
    (void)PMPI_Comm_rank(comm, &rank);
    return rank;
}

int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                  int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    MPI_Aint lb = 0, extent = 0;
    int size = 0;
    const int err =
        PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    (void)PMPI_Type_get_extent(recvtype, &lb, &extent);
    (void)PMPI_Comm_size(comm, &size);
    char *end = (char *)recvbuf + (MPI_Aint)size * recvcount * extent;
    if (has_fault("last byte") && recvcount > 0 && recvtype == MPI_INT)
        end[-1] ^= 1;
    if (has_fault("byte behind") && recvcount > 0)
        *end ^= 1;
    return err;
}

/* Deaf to the types of other ranks, as an implementation that splits by elements is. */
int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
    if (has_fault("hang") && count > 100 && rank_in(comm) != root)
        (void)pause();
    if (has_fault("crash") && count > 100)
        abort();
    if (has_fault("error"))
        return MPI_ERR_OTHER;
    if (has_fault("elements") && count > 1) {
        MPI_Aint lb = 0, extent = 0;
        (void)PMPI_Type_get_extent(datatype, &lb, &extent);
        const int err = PMPI_Bcast(buffer, count / 2, datatype, root, comm);
        char *half = (char *)buffer + count / 2 * extent;
        return err == MPI_SUCCESS ? PMPI_Bcast(half, count - count / 2, datatype, root, comm) : err;
    }
    return PMPI_Bcast(buffer, count, datatype, root, comm);
}

/* In the order of the ranks reversed: wrong where the operation does not commute. */
int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
    MPI_Comm other = comm;
    if (has_fault("order") && PMPI_Comm_split(comm, 0, -rank_in(comm), &other) != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    if (has_fault("handler"))
        (void)PMPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    const int err = PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, other);
    if (has_fault("message") && rank_in(comm) == 0) {
        /* Never received by the library, so the user's wildcard gets it. */
        MPI_Request request = MPI_REQUEST_NULL;
        (void)PMPI_Isend(NULL, 0, MPI_BYTE, 0, 1, comm, &request);
        (void)PMPI_Request_free(&request);
    }
    if (other != comm)
        (void)PMPI_Comm_free(&other);
    return err;
}

int MPI_Barrier(MPI_Comm comm) {
    return has_fault("early") && rank_in(comm) == 0 ? MPI_SUCCESS : PMPI_Barrier(comm);
}
