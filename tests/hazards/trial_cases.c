/*
 * Calls whose variant is on trial (COLLFORGE_GUARD). The word says which:
 *
 *   errors  an op that does not apply to the type: each call returns an error, reported once
 *   hides   an error handler that frees the communicator and hides the error
 *   sizes   two sizes in turn
 *   sums    sums of floats and logical reductions in turn
 *   scans   prefix sums
 *   late    a root that is late for each broadcast
 *   truncates  an error on one rank alone before each decision of a trial: calls 1 and 5 are the variant's,
 *              call 11 is native's
 *   itruncates  the same by MPI_Iscatter and MPI_Wait
 *   many    so many calls of bcast and allreduce that a re-test begins
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CALLS = 40, MOST = 20000, MANY = 16384 + 24 };

static int reports = 0;

static void count(MPI_Comm *comm, int *err, ...) {
    (void)comm;
    (void)err;
    reports++;
}

static int errors(MPI_Comm comm) {
    double a[2] = {1, 2}, b[2];
    int wrong = 0;
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(count, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (int i = 0; i < CALLS; i++) {
        const int before = reports;
        wrong += MPI_Allreduce(a, b, 2, MPI_DOUBLE, MPI_BAND, comm) == MPI_SUCCESS;
        wrong += reports != before + 1;
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    return wrong;
}

/* MPICH returns what the handler leaves; Open MPI the error. */
static void hide(MPI_Comm *comm, int *err, ...) {
    if (++reports == 4) {
        MPI_Comm freed = *comm;
        MPI_Comm_free(&freed);
    }
    *err = MPI_SUCCESS;
}

static int hides(MPI_Comm world) {
    double a[2] = {1, 2}, b[2];
    MPI_Comm comm;
    MPI_Errhandler handler;

    MPI_Comm_dup(world, &comm);
    MPI_Comm_create_errhandler(hide, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (int i = 0; i < 4; i++)
        MPI_Allreduce(a, b, 2, MPI_DOUBLE, MPI_BAND, comm);
    MPI_Errhandler_free(&handler);
    return reports != 4;
}

static int sizes(MPI_Comm comm, int rank) {
    static char data[MOST];
    int wrong = 0;

    for (int i = 0; i < CALLS; i++) {
        const int bytes = i % 2 == 0 ? 1000 : MOST;
        memset(data, rank == 0 ? i : 0, sizeof data);
        MPI_Bcast(data, bytes, MPI_CHAR, 0, comm);
        for (int at = 0; at < bytes; at++)
            wrong += data[at] != i;
    }
    return wrong;
}

static int sums(MPI_Comm comm, int rank) {
    const double operand[2] = {rank == 0 ? 1e16 : rank == 1 ? 1 : rank == 2 ? -1e16 : 1, 0.1};
    double first[2], again[2];
    int wrong = 0, one = 1, all;

    for (int i = 0; i < CALLS; i++) {
        MPI_Allreduce(operand, i == 0 ? first : again, 2, MPI_DOUBLE, MPI_SUM, comm);
        wrong += i > 0 && memcmp(first, again, sizeof first) != 0;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_LOR, comm);
        wrong += !all;
    }
    return wrong;
}

static int scans(MPI_Comm comm, int rank) {
    int own[16], last[16];
    int wrong = 0;

    for (int i = 0; i < 64; i++) {
        own[i % 16] = rank;
        if (i % 16 == 15)
            MPI_Scan(own, last, 16, MPI_INT, MPI_SUM, comm);
        wrong += i % 16 == 15 && last[i / 16] != rank * (rank + 1) / 2;
    }
    return wrong;
}

static int scatter(const char *all, int bytes, char *told, int less, int starts, MPI_Comm comm) {
    MPI_Request request;
    if (!starts)
        return MPI_Scatter(all, bytes, MPI_CHAR, told, bytes - less, MPI_CHAR, 0, comm);
    const int err = MPI_Iscatter(all, bytes, MPI_CHAR, told, bytes - less, MPI_CHAR, 0, comm, &request);
    return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
}

static int truncates(MPI_Comm comm, int rank, int starts) {
    char told[2000], all[8000];
    int wrong = 0;

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* where Open MPI 4 reports it */
    const int ends[] = {1, 5, 11};
    for (int bytes = 720, turn = 0; bytes < 1500; bytes += bytes / 4, turn++) {
        for (int i = 0; i < CALLS; i++) {
            const int less = i == ends[turn % 3] && rank == 3;
            for (int to = 0; to < 4; to++)
                memset(all + to * bytes, i + to, (size_t)bytes);
            const int err = scatter(all, bytes, told, less, starts, comm);
            wrong += (err != MPI_SUCCESS) > less;
            wrong += !less && (told[0] != i + rank || told[bytes - 1] != i + rank);
        }
    }
    return wrong;
}

static int late(MPI_Comm comm, int rank) {
    const struct timespec pause = {.tv_nsec = 20000000};
    int wrong = 0;

    for (int i = 0; i < CALLS; i++) {
        char told[1000];
        memset(told, rank == 0 ? i : -1, sizeof told);
        if (rank == 0)
            nanosleep(&pause, NULL);
        MPI_Bcast(told, sizeof told, MPI_CHAR, 0, comm);
        wrong += told[0] != i || told[sizeof told - 1] != i;
    }
    return wrong;
}

static int many(MPI_Comm comm, int rank) {
    int wrong = 0, sum;

    for (int i = 0; i < MANY; i++) {
        int told = rank == 0 ? i : -1;
        MPI_Bcast(&told, 1, MPI_INT, 0, comm);
        MPI_Allreduce(&told, &sum, 1, MPI_INT, MPI_SUM, comm);
        wrong += told != i || sum != 4 * i;
    }
    return wrong;
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    int rank, wrong, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    wrong = strcmp(argv[1], "errors") == 0  ? errors(comm)
            : strcmp(argv[1], "hides") == 0 ? hides(comm)
            : strcmp(argv[1], "sizes") == 0 ? sizes(comm, rank)
            : strcmp(argv[1], "sums") == 0  ? sums(comm, rank)
            : strcmp(argv[1], "many") == 0  ? many(comm, rank)
            : strcmp(argv[1], "late") == 0  ? late(comm, rank)
            : strcmp(argv[1], "truncates") == 0 ? truncates(comm, rank, 0)
            : strcmp(argv[1], "itruncates") == 0 ? truncates(comm, rank, 1)
                                            : scans(comm, rank);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, comm);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
