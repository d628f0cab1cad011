/*
 * Threads that make, use and free communicators and datatypes of their own, all at once: what the
 * runtime keeps about handles is written and read from every side.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 30, NUMBERS = 64 };

static atomic_int wrong;

static void use(MPI_Comm comm, int round) {
    MPI_Datatype four = MPI_DATATYPE_NULL;
    MPI_Comm copy = MPI_COMM_NULL;
    int numbers[NUMBERS], sums[NUMBERS];
    int size = 0;
    MPI_Comm_size(comm, &size);
    MPI_Type_contiguous(4, MPI_INT, &four);
    MPI_Type_commit(&four);
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = round + i;
    MPI_Allreduce(numbers, sums, NUMBERS, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < NUMBERS; i++)
        wrong += sums[i] != size * (round + i);
    MPI_Bcast(numbers, NUMBERS / 4, four, round % size, comm);
    MPI_Barrier(comm);
    MPI_Comm_dup(comm, &copy);
    MPI_Bcast(numbers, NUMBERS, MPI_INT, 0, copy);
    MPI_Comm_free(&copy);
    MPI_Type_free(&four);
}

static void *work(void *argument) {
    for (int round = 0; round < ROUNDS; round++)
        use(*(MPI_Comm *)argument, round);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    MPI_Comm comms[THREADS];
    int provided = MPI_THREAD_SINGLE;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    printf("threads %d rounds %d wrong %d\n", THREADS, ROUNDS, wrong);
    return provided < MPI_THREAD_MULTIPLE || wrong != 0;
}
