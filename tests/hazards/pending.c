/*
 * An error in the middle of a collective, after which the program gives back the memory of the call and the communicator, as
 * it may where the error handler is MPI_ERRORS_RETURN: nothing that was begun may touch that any more.
 *   pending COLLECTIVE RANK FUNCTION N FILE    the N-th call of Isend or Irecv on this rank fails
 * The others come late, so that what this rank has begun until then is still under way. They may wait for ever for what
 * it does not send: it ends the job, having said in FILE that all is well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4 << 20, ROOT = 2, LATE_MS = 150 };

static const char *fails = "none";
static int left = 0; /* calls until the one that fails */

static int is_out(const char *function) {
    return strcmp(fails, function) == 0 && left > 0 && --left == 0;
}

int PMPI_Isend(const void *data, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
               MPI_Request *request) {
    static int (*next)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Isend");
    return is_out("Isend") ? MPI_ERR_OTHER : next(data, count, type, target, tag, comm, request);
}

int PMPI_Irecv(void *data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request *request) {
    static int (*next)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "PMPI_Irecv");
    return is_out("Irecv") ? MPI_ERR_OTHER : next(data, count, type, source, tag, comm, request);
}

static MPI_Comm used;

static int call(const char *collective, void *a, void *b, int bytes) {
    const int words = bytes / (int)sizeof(int);

    if (strcmp(collective, "bcast") == 0)
        return MPI_Bcast(a, bytes, MPI_BYTE, ROOT, used);
    if (strcmp(collective, "reduce") == 0)
        return MPI_Reduce(a, b, words, MPI_INT, MPI_BOR, ROOT, used);
    if (strcmp(collective, "allreduce") == 0)
        return MPI_Allreduce(a, b, words, MPI_INT, MPI_BOR, used);
    if (strcmp(collective, "exscan") == 0)
        return MPI_Exscan(a, b, words, MPI_INT, MPI_BOR, used);
    if (strcmp(collective, "alltoall") == 0)
        return MPI_Alltoall(a, bytes / 4, MPI_BYTE, b, bytes / 4, MPI_BYTE, used);
    if (strcmp(collective, "allgather") == 0)
        return MPI_Allgather(a, bytes / 4, MPI_BYTE, b, bytes / 4, MPI_BYTE, used);
    if (strcmp(collective, "scatter") == 0)
        return MPI_Scatter(a, bytes / 4, MPI_BYTE, b, bytes / 4, MPI_BYTE, ROOT, used);
    if (strcmp(collective, "gather") == 0)
        return MPI_Gather(a, bytes / 4, MPI_BYTE, b, bytes / 4, MPI_BYTE, ROOT, used);
    return MPI_ERR_ARG;
}

static void pause_ms(long ms) {
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* For so long MPI may do whatever it still has to. */
static void progress(long ms) {
    int found = 0;

    for (long i = 0; i < ms; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        pause_ms(1);
    }
}

static void *memory(void) {
    void *found = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(found, 1, BYTES);
    return found;
}

int main(int argc, char **argv) {
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)alarm(60);
    if (argc != 6)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &used);
    MPI_Comm_set_errhandler(used, MPI_ERRORS_RETURN);
    void *a = memory();
    void *b = memory();
    call(argv[1], a, b, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    const int is_failing = rank == atoi(argv[2]);
    if (is_failing) {
        fails = argv[3];
        left = atoi(argv[4]);
    } else {
        pause_ms(LATE_MS);
    }
    const int err = call(argv[1], a, b, BYTES);
    if (is_failing) {
        munmap(a, BYTES);
        munmap(b, BYTES);
        MPI_Comm_free(&used); /* with the temporaries of its collectives */
        progress(2 * LATE_MS);
        FILE *file = fopen(argv[5], "w");
        fputs(err == MPI_SUCCESS ? "no error" : "passed", file);
        fclose(file);
        MPI_Abort(MPI_COMM_WORLD, 0);
    }
    progress(100 * LATE_MS);
    return 1;
}
