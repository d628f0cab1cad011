/* runtime/src/base/threads.c by itself: who does what. Prints "passed". */
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/threads.h"

enum { N = 40, FAILS = 11, FAILS_TOO = 30 };

static atomic_int calls[N];
static atomic_int by[64];
static int failing;

static int work(void *argument, int i) {
    const struct timespec pause = {.tv_nsec = 200000};

    (void)argument;
    atomic_fetch_add(&calls[i], 1);
    atomic_fetch_add(&by[omp_get_thread_num()], 1);
    nanosleep(&pause, NULL);
    if (failing && i == FAILS) {
        return MPI_ERR_OTHER;
    }
    return failing && i == FAILS_TOO ? MPI_ERR_COUNT : MPI_SUCCESS;
}

static void need(int holds, const char *what) {
    if (!holds) {
        printf("not so: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Runs all once, or with errors stops early: which ones ran, and that none did twice. Returns how many threads took
 * part. */
static int run(int threads, int wanted) {
    int took_part = 0;

    for (int i = 0; i < N; i++) {
        atomic_store(&calls[i], 0);
    }
    for (int t = 0; t < 64; t++) {
        atomic_store(&by[t], 0);
    }
    const int err = cf_threads_run(work, NULL, N, threads);
    need(err == wanted, "the error");
    for (int i = 0; i < N; i++) {
        need(calls[i] == 1 || (err != MPI_SUCCESS && calls[i] == 0), "each once, or with an error not at all");
    }
    need(err == MPI_SUCCESS || calls[N - 1] == 0, "the last one after an error");
    for (int t = 0; t < 64; t++) {
        took_part += by[t] > 0;
    }
    return took_part;
}

static void *elsewhere(void *unused) {
    (void)unused;
    need(run(2, MPI_SUCCESS) == 1, "alone in a thread that is not the main one");
    return NULL;
}

int main(int argc, char **argv) {
    int provided = 0;
    pthread_t other;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    need(provided == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE");
    const int most = omp_get_max_threads() < omp_get_num_procs() ? omp_get_max_threads() : omp_get_num_procs();
    need(most >= 2 && cf_threads_allowed() == most, "as many as OMP_NUM_THREADS and the cores allow");
    need(run(2, MPI_SUCCESS) == 2, "two threads");
    need(run(1, MPI_SUCCESS) == 1, "one thread");
    failing = 1;
    need(run(2, MPI_ERR_OTHER) == 2, "two threads, with errors");
    need(run(1, MPI_ERR_OTHER) == 1, "one thread, with errors");
    failing = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp master
        need(run(2, MPI_SUCCESS) == 1, "alone inside a parallel region");
    }
    need(pthread_create(&other, NULL, elsewhere, NULL) == 0 && pthread_join(other, NULL) == 0, "a thread");
    omp_set_num_threads(1);
    need(run(2, MPI_SUCCESS) == 1, "no more than there are now");
    puts("passed");
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
