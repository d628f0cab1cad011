/* Two worlds in one communicator: the program starts itself once more, through env with the variables that are its
 * arguments, and both worlds call collectives on what they have together and on parts of it. */
#include <mpi.h>
#include <stdio.h>

enum { CHILDREN = 2, ROUNDS = 10, WORDS = 200 };

static int bad = 0;

static void work(MPI_Comm comm) {
    int rank, size;
    int values[WORDS], sums[WORDS];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            values[i] = rank == round % size ? round + i : -1;
        MPI_Bcast(values, WORDS, MPI_INT, round % size, comm);
        MPI_Allreduce(values, sums, WORDS, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < WORDS; i++)
            bad += values[i] != round + i || sums[i] != size * (round + i);
    }
}

int main(int argc, char **argv) {
    int rank, all = 0;
    MPI_Comm parent, children, together, part;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    const int is_child = parent != MPI_COMM_NULL;
    work(MPI_COMM_WORLD);
    /* argv[1..]: what env gets, with this program as the last of it. */
    if (!is_child)
        MPI_Comm_spawn("env", argv + 1, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(is_child ? parent : children, is_child, &together);
    work(together);
    MPI_Comm_rank(together, &rank);
    MPI_Comm_dup(together, &part);
    work(part);
    MPI_Comm_free(&part);
    MPI_Comm_split(together, rank % 2, rank, &part); /* of both worlds */
    work(part);
    MPI_Comm_free(&part);
    MPI_Comm_split(together, is_child, rank, &part); /* each world's own */
    work(part);
    MPI_Comm_free(&part);
    work(MPI_COMM_WORLD);
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, together);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    MPI_Comm_free(&together);
    MPI_Comm_disconnect(is_child ? &parent : &children);
    MPI_Finalize();
    return all != 0;
}
