/*
 * Communicators made, used and freed again, as libraries that duplicate their caller's communicator
 * do. Prints the bytes of the heap by which this rank has grown per cycle, after a warm-up.
 *
 *   cycles NUMBER
 */
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static size_t heap(void) {
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

static int use(MPI_Comm comm, int cycle) {
    int size = 0;
    int number = cycle;
    int sum = 0;
    MPI_Comm_size(comm, &size);
    MPI_Bcast(&number, 1, MPI_INT, cycle % size, comm);
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Barrier(comm);
    return number == cycle && sum == size * cycle;
}

int main(int argc, char **argv) {
    const int cycles = argc > 1 ? atoi(argv[1]) : 0;
    const int warm = cycles / 10;
    size_t before = 0;
    int wrong = 0;
    int rank = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int cycle = 0; cycle < cycles + warm; cycle++) {
        MPI_Comm comm = MPI_COMM_NULL;
        if (cycle == warm)
            before = heap();
        if (cycle % 2 == 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        else
            MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
        wrong += !use(comm, cycle);
        MPI_Comm_free(&comm);
    }
    const double growth = ((double)heap() - (double)before) / cycles;
    double most = 0;
    int all_wrong = 0;
    MPI_Reduce(&growth, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("cycles %d wrong %d bytes-per-cycle %.2f\n", cycles, all_wrong, most);
    MPI_Finalize();
    return all_wrong != 0;
}
