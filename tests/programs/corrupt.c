/* Preloaded before the library: spoils one bit of the result of every twentieth allreduce. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

static void spoil(void *result, long long count) {
    static int calls = 0;
    if (count > 0 && ++calls % 20 == 0)
        *(unsigned char *)result ^= 1;
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
    int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Allreduce");
    const int err = next(sendbuf, recvbuf, count, datatype, op, comm);
    spoil(recvbuf, count);
    return err;
}

#if MPI_VERSION >= 4
int MPI_Allreduce_c(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                    MPI_Op op, MPI_Comm comm) {
    int (*next)(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "MPI_Allreduce_c");
    const int err = next(sendbuf, recvbuf, count, datatype, op, comm);
    spoil(recvbuf, count);
    return err;
}
#endif
