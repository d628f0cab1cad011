/* Calls collectives by their addresses, which the linker may then place in the program. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 20 };

int main(int argc, char **argv) {
    int (*volatile bcast)(void *, int, MPI_Datatype, int, MPI_Comm) = MPI_Bcast;
    int (*volatile idup)(MPI_Comm, MPI_Comm *, MPI_Request *) = MPI_Comm_idup;
    int rank, wrong = idup == NULL, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        int value = rank == 0 ? round : -1;
        bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        wrong += value != round;
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
