/*
 * real: collectives on buffers in the memory of a CUDA device, each result checked on the host. Prints the median
 * time of a call in microseconds, a line for each collective and length. For real.sh: native, and preloaded.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 21 };

typedef unsigned long long pointer;

static int (*alloc)(pointer *, size_t), (*give_back)(pointer);
static int (*to_host)(void *, pointer, size_t), (*to_device)(pointer, const void *, size_t);
static int rank, size, wrong;

static void *need(void *library, const char *name) {
    void *address = dlsym(library, name);
    if (address == NULL) {
        fprintf(stderr, "no %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return address;
}

static void good(int err, const char *what) {
    if (err != 0) {
        fprintf(stderr, "%s: error %d\n", what, err);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void start_device(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int device = 0;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int (*init)(unsigned) = (int (*)(unsigned))need(library, "cuInit");
    int (*get)(int *, int) = (int (*)(int *, int))need(library, "cuDeviceGet");
    int (*retain)(void **, int) = (int (*)(void **, int))need(library, "cuDevicePrimaryCtxRetain");
    int (*use)(void *) = (int (*)(void *))need(library, "cuCtxSetCurrent");
    alloc = (int (*)(pointer *, size_t))need(library, "cuMemAlloc_v2");
    give_back = (int (*)(pointer))need(library, "cuMemFree_v2");
    to_host = (int (*)(void *, pointer, size_t))need(library, "cuMemcpyDtoH_v2");
    to_device = (int (*)(pointer, const void *, size_t))need(library, "cuMemcpyHtoD_v2");
    good(init(0), "cuInit");
    good(get(&device, 0), "cuDeviceGet");
    good(retain(&context, device), "cuDevicePrimaryCtxRetain");
    good(use(context), "cuCtxSetCurrent");
}

enum { BCAST, ALLREDUCE, REDUCE, ALLGATHER, ALLTOALL, SCATTER, GATHER, CALLS };
static const char *const names[] = {"bcast",    "allreduce", "reduce", "allgather",
                                    "alltoall", "scatter",   "gather"};

/* count: of one rank's part; in and out have size of them. */
static void call(int which, void *in, void *out, int count) {
    switch (which) {
    case BCAST:
        MPI_Bcast(rank == 0 ? in : out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        break;
    case ALLREDUCE:
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        break;
    case REDUCE:
        MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
    case ALLGATHER:
        MPI_Allgather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, MPI_COMM_WORLD);
        break;
    case ALLTOALL:
        MPI_Alltoall(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, MPI_COMM_WORLD);
        break;
    case SCATTER:
        MPI_Scatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        break;
    default:
        MPI_Gather(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
}

static double input(int of, int at) {
    return of * 1000 + at % 977;
}

/* -1: not written. */
static double expected(int which, int at, int count) {
    int part = at / count, within = at % count;
    switch (which) {
    case BCAST:
        return part == 0 && rank != 0 ? input(0, at) : -1;
    case ALLREDUCE:
    case REDUCE:
        return part == 0 && (which == ALLREDUCE || rank == 0)
                   ? 1000.0 * size * (size - 1) / 2 + size * (double)(within % 977)
                   : -1;
    case ALLGATHER:
        return input(part, within);
    case ALLTOALL:
        return input(part, rank * count + within);
    case SCATTER:
        return part == 0 ? input(0, rank * count + within) : -1;
    default:
        return rank == 0 ? input(part, within) : -1;
    }
}

static int in_order(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void try(int which, int count) {
    size_t bytes = (size_t)count * (size_t)size * sizeof(double);
    double *host = malloc(bytes), times[REPEATS];
    pointer in = 0, out = 0;

    good(alloc(&in, bytes), "cuMemAlloc");
    good(alloc(&out, bytes), "cuMemAlloc");
    for (int i = 0; i < count * size; i++) {
        host[i] = input(rank, i);
    }
    good(to_device(in, host, bytes), "cuMemcpyHtoD");
    for (int i = 0; i < count * size; i++) {
        host[i] = -1;
    }
    good(to_device(out, host, bytes), "cuMemcpyHtoD");
    for (int i = 0; i < REPEATS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime(), longest;
        call(which, (void *)in, (void *)out, count);
        times[i] = MPI_Wtime() - begin;
        PMPI_Allreduce(&times[i], &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        times[i] = longest;
    }
    good(to_host(host, out, bytes), "cuMemcpyDtoH");
    for (int i = 0; i < count * size; i++) {
        wrong += host[i] != expected(which, i, count);
    }
    qsort(times, REPEATS, sizeof times[0], in_order);
    if (rank == 0) {
        printf("%s %zu %.1f\n", names[which], (size_t)count * sizeof(double), times[REPEATS / 2] * 1e6);
        fflush(stdout);
    }
    give_back(in);
    give_back(out);
    free(host);
}

int main(int argc, char **argv) {
    int all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    start_device();
    for (int which = 0; which < CALLS; which++) {
        for (int count = 128; count <= 131072; count *= 32) {
            try(which, count);
        }
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("wrong values: %d\n", all);
    }
    MPI_Finalize();
    return all != 0;
}
