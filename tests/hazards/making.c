/*
 * Collectives of the main thread while a worker of some ranks makes a communicator, which the others do only later: their
 * first calls, for which the library may make some, too.
 *   making HOW WHERE FILE    HOW: dup, group, file; WHERE: the collectives are on all ranks, or on half of them
 * HOW is window: MPI_Comm_dup while all call what is served through a window, having called something else before.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CALLS = 3 };

#include "sum.h"

static const char *how = "", *path = "";
static MPI_Comm parent, made;

static void *make(void *unused) {
    MPI_Group group;
    MPI_File file;

    if (strcmp(how, "file") == 0) {
        MPI_File_open(parent, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        MPI_File_close(&file);
    }
    if (strcmp(how, "group") == 0) {
        MPI_Comm_group(parent, &group);
        MPI_Comm_create_group(parent, group, 3, &made);
        MPI_Group_free(&group);
    } else {
        MPI_Comm_dup(parent, &made);
    }
    return unused;
}

int main(int argc, char **argv) {
    const struct timespec while_it_begins = {.tv_nsec = 200000000};
    int provided, rank, size, word = 0, total = 0, words[WORDS] = {0};
    MPI_Comm half;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < MPI_THREAD_MULTIPLE || argc < 4)
        MPI_Abort(MPI_COMM_WORLD, 1);
    how = argv[1];
    path = argv[3];
    const int lower = rank < size / 2;
    const int all = strcmp(argv[2], "all") == 0;
    const int window = strcmp(how, "window") == 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
    if (window)
        sum(MPI_COMM_WORLD);
    if (lower) {
        pthread_create(&thread, NULL, make, NULL);
        nanosleep(&while_it_begins, NULL);
    }
    for (int n = 0; window && n < CALLS; n++)
        MPI_Bcast(words, WORDS, MPI_INT, 0, MPI_COMM_WORLD);
    if (all)
        sum(MPI_COMM_WORLD);
    else if (lower)
        sum(half);
    if (lower) {
        MPI_Send(&word, 1, MPI_INT, rank + size / 2, 0, MPI_COMM_WORLD);
        pthread_join(thread, NULL);
    } else {
        MPI_Recv(&word, 1, MPI_INT, rank - size / 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        make(NULL);
    }
    sum(made);
    MPI_Comm_free(&made);
    MPI_Comm_free(&half);
    MPI_Comm_free(&parent);
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(total == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
