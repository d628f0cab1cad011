/*
 * The first rank sends in a delete callback of MPI_COMM_SELF, which is the first action of MPI_Finalize. The others
 * receive before they call MPI_Finalize.
 */
#include <mpi.h>
#include <stdio.h>

enum { TAG = 5, ROUNDS = 3 };

static int rank, size;

static int send_last(MPI_Comm self, int keyval, void *value, void *extra) {
    (void)self;
    (void)keyval;
    (void)value;
    (void)extra;
    for (int to = 1; rank == 0 && to < size; to++)
        MPI_Send(&to, 1, MPI_INT, to, TAG, MPI_COMM_WORLD);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int keyval, wrong = 0, all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < ROUNDS; round++) {
        int one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += sum != size;
    }
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, send_last, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank > 0) {
        int received = 0;
        MPI_Recv(&received, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (received != rank)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    return 0;
}
