/*
 * A tool as MUST and Casper are: the last rank is a helper, which stays in MPI_Init until the others end; to these the tool
 * shows a world without it.
 */
#include <mpi.h>
#include <stdlib.h>

static MPI_Comm world = MPI_COMM_NULL;

static MPI_Comm shown(MPI_Comm comm) {
    return comm == MPI_COMM_WORLD ? world : comm;
}

static int split(void) {
    int rank = 0, size = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, rank, &world);
    if (rank == size - 1) {
        int ended = 0;
        PMPI_Recv(&ended, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        PMPI_Comm_free(&world);
        PMPI_Finalize();
        exit(ended == 7 ? 0 : 1);
    }
    return MPI_SUCCESS;
}

int MPI_Init(int *argc, char ***argv) {
    const int err = PMPI_Init(argc, argv);
    return err == MPI_SUCCESS ? split() : err;
}

int MPI_Finalize(void) {
    int rank = 0, size = 0, ended = 7;
    PMPI_Comm_rank(world, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Barrier(world);
    if (rank == 0)
        PMPI_Send(&ended, 1, MPI_INT, size - 1, 3, MPI_COMM_WORLD);
    PMPI_Comm_free(&world);
    return PMPI_Finalize();
}

int MPI_Comm_rank(MPI_Comm comm, int *rank) {
    return PMPI_Comm_rank(shown(comm), rank);
}

int MPI_Comm_size(MPI_Comm comm, int *size) {
    return PMPI_Comm_size(shown(comm), size);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return PMPI_Allreduce(from, to, count, type, op, shown(comm));
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return PMPI_Bcast(data, count, type, root, shown(comm));
}

int MPI_Barrier(MPI_Comm comm) {
    return PMPI_Barrier(shown(comm));
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    return PMPI_Reduce(from, to, count, type, op, root, shown(comm));
}
