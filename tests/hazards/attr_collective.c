/* A delete callback that makes collective calls on the communicator that is being freed: legal. With
 * "pending" a nonblocking collective is still under way when it is freed: MPICH then calls back from
 * inside MPI_Wait. With "untouched" the callback's call is the first on the communicator. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 64, ROUNDS = 300 };

static int bad = 0, called = 0;

static void sum_up(MPI_Comm comm) {
    int size, one[WORDS], sum[WORDS];

    MPI_Comm_size(comm, &size);
    for (int w = 0; w < WORDS; w++)
        one[w] = 1;
    MPI_Allreduce(one, sum, WORDS, MPI_INT, MPI_SUM, comm);
    for (int w = 0; w < WORDS; w++)
        bad += sum[w] != size;
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key;
    (void)value;
    (void)extra;
    called++;
    sum_up(comm);
    return MPI_Barrier(comm);
}

int main(int argc, char **argv) {
    int rank, key;
    const char *mode = argc > 1 ? argv[1] : "free";
    MPI_Request pending = MPI_REQUEST_NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm;
        if (i % 3 == 0)
            MPI_Comm_split(MPI_COMM_WORLD, rank < 3, rank, &comm);
        else if (i % 3 == 1)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        else
            MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
        /* Attributes are deleted in any order: on either side of the library's own, and on some
         * ranks before it where others come after it. */
        const int early = i % 4 < 2 ? i % 2 == 0 : rank % 2 == 0;
        if (early)
            MPI_Comm_set_attr(comm, key, NULL);
        if (strcmp(mode, "untouched") != 0)
            sum_up(comm);
        if (!early)
            MPI_Comm_set_attr(comm, key, NULL);
        if (strcmp(mode, "pending") == 0)
            MPI_Ibarrier(comm, &pending);
        if (strcmp(mode, "disconnect") == 0)
            MPI_Comm_disconnect(&comm);
        else
            MPI_Comm_free(&comm);
        MPI_Wait(&pending, MPI_STATUS_IGNORE);
    }
    bad += called != ROUNDS;
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(bad ? "FAILED" : "passed");
    return MPI_Finalize();
}
