/* A hybrid package asks for a part of the free /dev/shm, in per mille: it gets all, or MPI_ERR_NO_MEM on all ranks. */
#include <collforge_hybrid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

int main(int argc, char **argv) {
    struct collforge_hybrid *hybrid = NULL;
    struct statvfs space;
    long bytes;
    int rank, err, least, most;
    char *memory = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    collforge_hybrid_create(MPI_COMM_WORLD, &hybrid);
    MPI_Barrier(MPI_COMM_WORLD);
    statvfs("/dev/shm", &space);
    bytes = (long)(space.f_bavail * space.f_frsize / 1000) * atol(argv[1]);
    MPI_Bcast(&bytes, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    err = collforge_hybrid_alloc(hybrid, bytes, &memory);
    if (err == MPI_SUCCESS && rank == 0)
        memset(memory, 1, (size_t)bytes);
    MPI_Allreduce(&err, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&err, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        puts(least != most ? "failed" : least == MPI_SUCCESS ? "all" : "none");
    collforge_hybrid_free(&hybrid);
    MPI_Finalize();
    return 0;
}
