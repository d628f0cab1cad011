/*
 * A delete callback that names the communicator, and then calls a collective on it. Once before and once behind the
 * library's own attribute; with a request pending, for which MPICH deletes the attributes in MPI_Wait. Another communicator
 * that gets the handle afterwards is served as any.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int wrong = 0;
static int size = 0;

static void sum(MPI_Comm comm) {
    int one = 1, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
    wrong += all != size;
}

static int rename_and_sum(MPI_Comm comm, int keyval, void *value, void *extra) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    (void)keyval, (void)value, (void)extra;
    MPI_Comm_get_name(comm, name, &length);
    wrong += strcmp(name, "mine") != 0;
    MPI_Comm_set_name(comm, "late");
    sum(comm);
    MPI_Comm_set_name(comm, "mine");
    return MPI_SUCCESS;
}

/* early: the attribute is set before the first collective. pending: a request outlives MPI_Comm_free. */
static void round_trip(int keyval, int early, int pending, int rank) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int in = -1, out = rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "mine");
    if (early)
        MPI_Comm_set_attr(comm, keyval, NULL);
    for (int i = 0; i < 3; i++)
        sum(comm);
    if (!early)
        MPI_Comm_set_attr(comm, keyval, NULL);
    if (pending) {
        MPI_Irecv(&in, 1, MPI_INT, (rank + size - 1) % size, 0, comm, &requests[0]);
        MPI_Isend(&out, 1, MPI_INT, (rank + 1) % size, 0, comm, &requests[1]);
    }
    MPI_Comm_free(&comm);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    wrong += pending && in != (rank + size - 1) % size;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    for (int i = 0; i < 3; i++)
        sum(comm);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    int rank = 0, keyval = MPI_KEYVAL_INVALID, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, rename_and_sum, &keyval, NULL);
    for (int i = 0; i < 8; i++)
        round_trip(keyval, i % 2, i / 2 % 2, rank);
    MPI_Comm_free_keyval(&keyval);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
