/* A tool that renumbers the ranks, as mapping tools do: MPI_COMM_WORLD means a communicator in reverse order. */
#include <mpi.h>

static MPI_Comm reversed = MPI_COMM_NULL;

static MPI_Comm meant(MPI_Comm comm) {
    return comm == MPI_COMM_WORLD && reversed != MPI_COMM_NULL ? reversed : comm;
}

static int begin(int err) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    return err;
}

int MPI_Init(int *argc, char ***argv) { return begin(PMPI_Init(argc, argv)); }
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    return begin(PMPI_Init_thread(argc, argv, required, provided));
}
int MPI_Finalize(void) {
    PMPI_Comm_free(&reversed);
    return PMPI_Finalize();
}
int MPI_Comm_rank(MPI_Comm comm, int *rank) { return PMPI_Comm_rank(meant(comm), rank); }
int MPI_Comm_size(MPI_Comm comm, int *size) { return PMPI_Comm_size(meant(comm), size); }
int MPI_Barrier(MPI_Comm comm) { return PMPI_Barrier(meant(comm)); }
int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return PMPI_Bcast(data, count, type, root, meant(comm));
}
int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return PMPI_Allreduce(in, out, count, type, op, meant(comm));
}
int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    return PMPI_Reduce(in, out, count, type, op, root, meant(comm));
}
