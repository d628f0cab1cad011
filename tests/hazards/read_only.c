/* Broadcasts of read-only memory, from each rank in turn: the root's buffer is only read. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 1 << 19 };

static const int sizes[] = {40, 4096, 65536, MOST};

int main(int argc, char **argv) {
    static char other[MOST];
    int rank, size, wrong = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *mine = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mine, 'a' + rank, MOST);
    mprotect(mine, MOST, PROT_READ);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int root = 0; root < size; root++) {
            char *data = rank == root ? mine : memset(other, '-', MOST);
            MPI_Bcast(data, sizes[i], MPI_CHAR, root, MPI_COMM_WORLD);
            for (int at = 0; at < sizes[i]; at++)
                wrong += data[at] != 'a' + root;
            wrong += rank != root && sizes[i] < MOST && other[sizes[i]] != '-';
        }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    MPI_Finalize();
    return 0;
}
