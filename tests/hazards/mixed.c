/* What a job does whose ranks do not all have the library: messages that any receive may take come first, then
 * collectives that block and that do not, on MPI_COMM_WORLD and on others. With an argument there is a signal every
 * millisecond, from before MPI_Init on. */
#define _XOPEN_SOURCE 700
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { ROUNDS = 20, WORDS = 300 };

static int bad = 0;

/* Everybody tells the next one, which takes whatever comes. */
static void pass_on(MPI_Comm comm) {
    int rank, size, got = -1;
    MPI_Status status;
    MPI_Request request;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 5, comm, &request);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    bad += got != (rank + size - 1) % size || status.MPI_TAG != 5;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void work(MPI_Comm comm) {
    int rank, size;
    int values[WORDS], sums[WORDS];
    MPI_Request request;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int round = 0; round < ROUNDS; round++) {
        const int root = round % size;
        for (int i = 0; i < WORDS; i++)
            values[i] = rank == root ? round + i : -1;
        MPI_Bcast(values, WORDS, MPI_INT, root, comm);
        for (int i = 0; i < WORDS; i++)
            bad += values[i] != round + i;
        MPI_Iallreduce(values, sums, WORDS, MPI_INT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < WORDS; i++)
            bad += sums[i] != size * (round + i);
        MPI_Allreduce(values, sums, WORDS, MPI_INT, MPI_MAX, comm);
        for (int i = 0; i < WORDS; i++)
            bad += sums[i] != round + i;
    }
}

static void ignore(int number) {
    (void)number;
}

static void send_signals(void) {
    const struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 1000}, {0, 1000}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv) {
    int rank, all = 0;
    MPI_Comm other;

    if (argc > 1)
        send_signals();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pass_on(MPI_COMM_WORLD);
    work(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    pass_on(other);
    work(other);
    MPI_Comm_free(&other);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &other);
    work(other);
    MPI_Comm_free(&other);
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all == 0 ? "passed" : "failed");
    MPI_Finalize();
    return all != 0;
}
