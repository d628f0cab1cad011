/*
 * Writes which messages of a call depend on which others.
 *   traced FOLDER COLLECTIVE:BYTES...    BYTES: of the vector, or of a block; the root is rank 0
 * Lines of FOLDER/RANK: "call"; "send TO BYTES"; "got FROM", where a receive is found ended.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, BYTES = 8 << 20 };

static FILE *out; /* NULL: nothing is written */
static struct {
    MPI_Request request;
    int from;
} pending[MOST];
static int npending;

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

/* A communicator's rank in the world. */
static int global(MPI_Comm comm, int rank) {
    MPI_Group own, world;
    int found;

    PMPI_Comm_group(comm, &own);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(own, 1, &rank, world, &found);
    PMPI_Group_free(&own);
    PMPI_Group_free(&world);
    return found;
}

int PMPI_Isend(const void *data, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
               MPI_Request *request) {
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    int size;

    PMPI_Type_size(type, &size);
    if (out != NULL)
        fprintf(out, "send %d %d\n", global(comm, target), count * size);
    *(void **)&send = next("PMPI_Isend");
    return send(data, count, type, target, tag, comm, request);
}

int PMPI_Irecv(void *data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request *request) {
    int (*receive)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

    *(void **)&receive = next("PMPI_Irecv");
    const int err = receive(data, count, type, source, tag, comm, request);
    if (out != NULL && npending < MOST) {
        pending[npending].request = *request;
        pending[npending++].from = global(comm, source);
    }
    return err;
}

static void end(MPI_Request request) {
    for (int i = 0; i < npending; i++)
        if (pending[i].request == request) {
            fprintf(out, "got %d\n", pending[i].from);
            pending[i] = pending[--npending];
            return;
        }
}

int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
    int (*test)(MPI_Request *, int *, MPI_Status *);
    const MPI_Request asked = *request;

    *(void **)&test = next("PMPI_Test");
    const int err = test(request, done, status);
    if (out != NULL && *done)
        end(asked);
    return err;
}

static void call(const char *collective, int n) {
    static char a[BYTES], b[BYTES];
    const MPI_Comm comm = MPI_COMM_WORLD;
    const int words = n / (int)sizeof(int);

    if (strcmp(collective, "bcast") == 0)
        MPI_Bcast(a, n, MPI_BYTE, 0, comm);
    else if (strcmp(collective, "reduce") == 0)
        MPI_Reduce(a, b, words, MPI_INT, MPI_BOR, 0, comm);
    else if (strcmp(collective, "allreduce") == 0)
        MPI_Allreduce(a, b, words, MPI_INT, MPI_BOR, comm);
    else if (strcmp(collective, "exscan") == 0)
        MPI_Exscan(a, b, words, MPI_INT, MPI_BOR, comm);
    else if (strcmp(collective, "reduce_scatter_block") == 0)
        MPI_Reduce_scatter_block(a, b, words, MPI_INT, MPI_BOR, comm);
    else if (strcmp(collective, "alltoall") == 0)
        MPI_Alltoall(a, n, MPI_BYTE, b, n, MPI_BYTE, comm);
    else if (strcmp(collective, "allgather") == 0)
        MPI_Allgather(a, n, MPI_BYTE, b, n, MPI_BYTE, comm);
    else if (strcmp(collective, "scatter") == 0)
        MPI_Scatter(a, n, MPI_BYTE, b, n, MPI_BYTE, 0, comm);
    else if (strcmp(collective, "gather") == 0)
        MPI_Gather(a, n, MPI_BYTE, b, n, MPI_BYTE, 0, comm);
    else
        MPI_Abort(comm, 2);
}

int main(int argc, char **argv) {
    char path[4096];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s/%02d", argv[1], rank);
    FILE *file = fopen(path, "w");
    for (int i = 2; i < argc; i++) {
        char *size = strchr(argv[i], ':');

        *size++ = '\0';
        call(argv[i], atoi(size)); /* the first call makes communicators */
        fputs("call\n", file);
        MPI_Barrier(MPI_COMM_WORLD);
        out = file;
        call(argv[i], atoi(size));
        out = NULL;
        npending = 0;
    }
    fclose(file);
    return MPI_Finalize();
}
