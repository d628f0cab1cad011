/*
 * Every nonblocking collective on a communicator without an earlier call, and one blocking one.
 * Each rank starts and completes in an order in which a blocking call in its place would hang.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4 };

int main(int argc, char **argv) {
    MPI_Request all[16];
    MPI_Comm comm;
    int rank, size;
    int ones[RANKS], places[RANKS], from[RANKS], to[16][RANKS];
    int token = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != RANKS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    for (int i = 0; i < RANKS; i++) {
        ones[i] = 1;
        places[i] = i;
        from[i] = rank + i;
    }
    MPI_Request *next = all;
    to[0][0] = rank; /* the root in comm is the last rank */
    if (rank != 0)   /* rank 0 starts when the others have */
        MPI_Recv(&token, 1, MPI_INT, (rank + 1) % RANKS, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, RANKS - 1, 0, MPI_COMM_WORLD);
    MPI_Ibcast(to[0], 1, MPI_INT, 0, comm, next++);
    MPI_Ibarrier(comm, next++);
    if (rank > 1)
        MPI_Send(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD);
    MPI_Iallgather(from, 1, MPI_INT, to[1], 1, MPI_INT, comm, next++);
    MPI_Iallgatherv(from, 1, MPI_INT, to[2], ones, places, MPI_INT, comm, next++);
    MPI_Iallreduce(from, to[3], 2, MPI_INT, MPI_SUM, comm, next++);
    MPI_Ialltoall(from, 1, MPI_INT, to[4], 1, MPI_INT, comm, next++);
    MPI_Ialltoallv(from, ones, places, MPI_INT, to[5], ones, places, MPI_INT, comm, next++);
    MPI_Igather(from, 1, MPI_INT, to[6], 1, MPI_INT, 0, comm, next++);
    MPI_Igatherv(from, 1, MPI_INT, to[7], ones, places, MPI_INT, 0, comm, next++);
    MPI_Ireduce(from, to[8], 2, MPI_INT, MPI_SUM, 0, comm, next++);
    MPI_Ireduce_scatter(from, to[9], ones, MPI_INT, MPI_SUM, comm, next++);
    MPI_Ireduce_scatter_block(from, to[10], 1, MPI_INT, MPI_SUM, comm, next++);
    MPI_Iscan(from, to[11], 2, MPI_INT, MPI_SUM, comm, next++);
    MPI_Iexscan(from, to[12], 2, MPI_INT, MPI_SUM, comm, next++);
    MPI_Iscatter(from, 1, MPI_INT, to[13], 1, MPI_INT, 0, comm, next++);
    MPI_Iscatterv(from, ones, places, MPI_INT, to[14], 1, MPI_INT, 0, comm, next++);
    for (int i = 0; i < 16; i++)
        MPI_Wait(&all[i], MPI_STATUS_IGNORE);
    MPI_Allreduce(from, to[15], 1, MPI_INT, MPI_SUM, comm);

    const int mine = RANKS - 1 - rank; /* in comm */
    const int wrong = to[0][0] != RANKS - 1 || to[3][0] != 6 || to[3][1] != 10 || to[1][1] != 2 ||
                      to[2][3] != 0 || to[4][0] != RANKS - 1 + mine || to[5][3] != mine ||
                      to[9][0] != 6 + 4 * mine || to[10][0] != 6 + 4 * mine ||
                      to[13][0] != RANKS - 1 + mine || to[14][0] != RANKS - 1 + mine ||
                      to[15][0] != 6 || (mine == 0 && (to[6][1] != 2 || to[7][3] != 0)) ||
                      (mine == 0 && to[8][1] != 10) || (mine == 3 && to[11][0] != 6) ||
                      (mine == 3 && to[12][0] != 6);
    if (wrong)
        printf("rank %d has a wrong result\n", rank);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return wrong;
}
