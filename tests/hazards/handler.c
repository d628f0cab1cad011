/* A thread sets an error handler while others wait in the communicator's first collective: it must stay. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static MPI_Errhandler own;

static void ignore(MPI_Comm *comm, int *error, ...) {
    (void)comm;
    (void)error;
}

static void pause_ms(long ms) {
    const struct timespec time = {.tv_nsec = ms * 1000000};

    nanosleep(&time, NULL);
}

static void *work(void *unused) {
    pause_ms(150);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    return unused;
}

int main(int argc, char **argv) {
    int provided, rank, size, a[64] = {0}, b[64], kept, all = 0;
    MPI_Errhandler found;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_create_errhandler(ignore, &own);
    pthread_create(&thread, NULL, work, NULL);
    if (rank == size - 1)
        pause_ms(400);
    MPI_Allreduce(a, b, 64, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found);
    kept = found == own;
    MPI_Reduce(&kept, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all ? "passed" : "failed");
    return MPI_Finalize();
}
