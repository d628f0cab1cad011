/*
 * A delete callback that fails at its first calls: the communicator lives on, with its name, and is freed later.
 * Words: whether the attribute is set `early`, before the first collective, `late`, or `both`, early on rank 0 alone; `free`
 * or `disconnect`.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int calls = 0;

static int refuse_twice(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    return calls++ < 2 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int sum_is_wrong(MPI_Comm comm, int size) {
    int one = 1, sum = 0;

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum != size;
}

int main(int argc, char **argv) {
    char name[MPI_MAX_OBJECT_NAME] = "", long_name[MPI_MAX_OBJECT_NAME] = "";
    int rank, size, keyval, newer, length, wrong, all, early;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(long_name, 'x', sizeof long_name - 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_name(comm, long_name);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_twice, &keyval, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_twice, &newer, NULL);
    early = strcmp(argv[1], "early") == 0 || (strcmp(argv[1], "both") == 0 && rank == 0);
    if (early)
        MPI_Comm_set_attr(comm, keyval, NULL);
    wrong = 0;
    for (int round = 0; round < 3; round++)
        wrong += sum_is_wrong(comm, size);
    if (!early)
        MPI_Comm_set_attr(comm, keyval, NULL);
    for (int refusal = 0; refusal < 2; refusal++) {
        if (strcmp(argv[2], "free") == 0)
            MPI_Comm_free(&comm);
        else
            MPI_Comm_disconnect(&comm);
        wrong += comm == MPI_COMM_NULL;
        MPI_Comm_get_name(comm, name, &length);
        wrong += strcmp(name, long_name) != 0;
        for (int round = 0; round < 3; round++)
            wrong += sum_is_wrong(comm, size);
        MPI_Comm_set_attr(comm, newer, NULL);
    }
    wrong += MPI_Comm_free(&comm) != MPI_SUCCESS;
    MPI_Comm_free_keyval(&keyval);
    MPI_Comm_free_keyval(&newer);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
