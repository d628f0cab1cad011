/* Receivers with room to spare. MPI wants both sides of a message alike, but both libraries are right
 * where the receiver offers more than it gets. */
#include <mpi.h>
#include <stdio.h>

enum { MOST = 64, ROOM = 10 };

static int rank, size, bad = 0;

static void scatter_pairs(void) {
    int counts[MOST], displs[MOST], a[2 * MOST], b[ROOM] = {0};

    for (int i = 0; i < size; i++) {
        counts[i] = 2;
        displs[i] = 2 * i;
        a[2 * i] = a[2 * i + 1] = 100 + i;
    }
    MPI_Scatterv(a, counts, displs, MPI_INT, b, ROOM, MPI_INT, 0, MPI_COMM_WORLD);
    bad += b[0] != 100 + rank || b[1] != 100 + rank || b[2] != 0;
}

static void gather_pairs(int root) {
    int counts[MOST], displs[MOST], a[2] = {100 + rank, 100 + rank}, b[ROOM * MOST] = {0};

    for (int i = 0; i < size; i++) {
        counts[i] = ROOM;
        displs[i] = ROOM * i;
    }
    MPI_Gatherv(a, 2, MPI_INT, b, counts, displs, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < size && rank == root; i++)
        bad += b[ROOM * i] != 100 + i || b[ROOM * i + 1] != 100 + i || b[ROOM * i + 2] != 0;
}

/* All have room to spare, for their own blocks, too. */
static void collect_pairs(void) {
    int counts[MOST], displs[MOST], a[2] = {100 + rank, 100 + rank}, b[ROOM * MOST];
    const int given = rank == 1 ? 1 : 2;

    for (int i = 0; i < size; i++) {
        counts[i] = ROOM;
        displs[i] = ROOM * i;
    }
    for (int i = 0; i < ROOM * MOST; i++)
        b[i] = -1;
    MPI_Allgatherv(a, given, MPI_INT, b, counts, displs, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        bad += b[ROOM * i] != 100 + i || (i != 1 && b[ROOM * i + 1] != 100 + i);
}

/* One rank alone has room to spare, but not for its own. */
static void exchange_pairs(void) {
    int sends[MOST], sdispls[MOST], receives[MOST], rdispls[MOST];
    int a[2 * MOST], b[ROOM * MOST] = {0};

    for (int i = 0; i < size; i++) {
        sends[i] = 2;
        sdispls[i] = 2 * i;
        a[2 * i] = a[2 * i + 1] = 100 * rank + i;
        receives[i] = rank == size - 1 && i != rank ? ROOM : 2;
        rdispls[i] = ROOM * i;
    }
    MPI_Alltoallv(a, sends, sdispls, MPI_INT, b, receives, rdispls, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        bad += b[ROOM * i] != 100 * i + rank || b[ROOM * i + 2] != 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3; i++) {
        scatter_pairs();
        for (int root = 0; root < size; root++)
            gather_pairs(root);
        exchange_pairs();
        collect_pairs();
    }
    MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(bad ? "FAILED" : "passed");
    return MPI_Finalize();
}
