/* Rank 0 comes three seconds late to a broadcast. A thread of rank 1 sends SIGUSR2 to its process meanwhile. More
 * threads than a report has room for at a time have called before, and ended. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void *interrupt(void *unused) {
    usleep(1500000);
    kill(getpid(), SIGUSR2);
    return unused;
}

static void *call(void *unused) {
    int value = 1;
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return unused;
}

int main(int argc, char **argv) {
    int rank = 0, level = 0;
    double data[512];
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 512; i++)
        data[i] = rank == 0 ? i : 0;
    for (int i = 0; i < 70; i++) {
        pthread_create(&thread, NULL, call, NULL);
        pthread_join(thread, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        pthread_create(&thread, NULL, interrupt, NULL);
    if (rank == 0)
        sleep(3);
    MPI_Bcast(data, 512, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 1)
        pthread_join(thread, NULL);
    if (data[511] == 511 && rank == 0)
        puts("passed");
    return MPI_Finalize();
}
