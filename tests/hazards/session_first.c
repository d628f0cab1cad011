/*
 * MPI_Session_init before MPI_Init. The word names who does so: `all`, `first` (rank 0) or `second` (rank 1). No message
 * of MPI_Init is left for the program's receives.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rank.h"

int main(int argc, char **argv) {
    MPI_Session session = MPI_SESSION_NULL;
    const int who = strcmp(argv[1], "first") == 0 ? 0 : strcmp(argv[1], "second") == 0 ? 1 : -1;
    int rank, size, one = 1, sum = 0, waiting = 0, wrong = 0, all;

    if (who == -1 || who == rank_by_launcher())
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        wrong += sum != size;
    }
    wrong += waiting;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    MPI_Finalize();
    if (session != MPI_SESSION_NULL)
        MPI_Session_finalize(&session);
    return 0;
}
