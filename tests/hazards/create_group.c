/* One thread makes communicators by MPI_Comm_create_group, the other makes none: its collectives on
 * communicators made before must not make any, either. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { COMMS = 200, WORDS = 64 };

static MPI_Comm parent;

static void *work(void *unused) {
    MPI_Group group;

    MPI_Comm_group(parent, &group);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm made;
        MPI_Comm_create_group(parent, group, 5, &made);
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&group);
    return unused;
}

int main(int argc, char **argv) {
    static MPI_Comm comm[COMMS];
    int provided, rank, a[WORDS] = {0}, b[WORDS];
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided < MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    pthread_create(&thread, NULL, work, NULL);
    for (int i = 0; i < COMMS; i++)
        MPI_Allreduce(a, b, WORDS, MPI_INT, MPI_SUM, comm[i]);
    pthread_join(thread, NULL);
    if (rank == 0)
        puts("passed");
    return MPI_Finalize();
}
