/*
 * What ebms.c and bspmm.c share: who works, windows, and what is printed. A worker is a process
 * (everywhere) or a thread of the one process of its node. Threads fetch over one window (ser_comm)
 * or over one each (par_comm).
 */
#ifndef ONE_SIDED_H_INCLUDED
#define ONE_SIDED_H_INCLUDED

#include <mpi.h>
#include <omp.h>
#include <stdbool.h>

#include "../kernels/kernel.h"

enum { MOST_WORKERS = 64, MOST_BYTES = 1000000 };

struct workers {
    bool everywhere;
    bool own;     /* each thread fetches over its own window */
    int per_node; /* workers of a node */
    int threads;  /* of a rank */
    int rank, size;
    int node, nodes;
    MPI_Win fetches[MOST_WORKERS];
};

static inline void must(int err) {
    if (err != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Starts MPI; arguments 1 and 2 are the mode and the workers of a node. */
static inline void start_workers(struct workers *w, int *argc, char ***argv) {
    int provided = MPI_THREAD_SINGLE;

    w->everywhere = *argc > 1 && strcmp((*argv)[1], "everywhere") == 0;
    w->own = *argc > 1 && strcmp((*argv)[1], "par_comm") == 0;
    must(MPI_Init_thread(argc, argv, w->everywhere ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                         &provided));
    must(MPI_Comm_rank(MPI_COMM_WORLD, &w->rank));
    must(MPI_Comm_size(MPI_COMM_WORLD, &w->size));
    w->per_node = kernel_argument(*argc, *argv, 2, 1);
    kernel_need(w->everywhere || provided == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE");
    kernel_need(w->per_node <= MOST_WORKERS, "at most 64 workers on a node");
    w->threads = w->everywhere ? 1 : w->per_node;
    const int ranks = w->per_node / w->threads; /* of a node; they are consecutive */
    kernel_need(w->size % ranks == 0, "as many ranks on each node");
    w->node = w->rank / ranks;
    w->nodes = w->size / ranks;
}

/* The number of this thread, or of this rank, among the workers of its node. */
static inline int worker_of(const struct workers *w) {
    return w->everywhere ? w->rank % w->per_node : omp_get_thread_num();
}

static inline MPI_Win fetch_window(const struct workers *w) {
    return w->fetches[w->own ? omp_get_thread_num() : 0];
}

static inline MPI_Win open_window(void *memory, size_t bytes, MPI_Info info) {
    MPI_Win window = MPI_WIN_NULL;

    must(MPI_Win_create(memory, (MPI_Aint)bytes, sizeof(double), info, MPI_COMM_WORLD, &window));
    must(MPI_Win_lock_all(MPI_MODE_NOCHECK, window));
    return window;
}

static inline void close_window(MPI_Win *window) {
    must(MPI_Win_unlock_all(*window));
    must(MPI_Win_free(window));
}

/* All windows are over the same memory. */
static inline void open_fetches(struct workers *w, void *memory, size_t bytes) {
    for (int i = 0; i < (w->own ? w->threads : 1); i++) {
        w->fetches[i] = open_window(memory, bytes, MPI_INFO_NULL);
    }
}

static inline void close_fetches(struct workers *w) {
    for (int i = 0; i < (w->own ? w->threads : 1); i++) {
        close_window(&w->fetches[i]);
    }
}

/* sums: the seconds of each part on this rank. Prints microseconds of one of `number` operations of
 * all ranks, as a member of a JSON list. */
static inline void print_parts(const struct workers *w, bool first, int bytes,
                               const char *const *names, const double *sums, int parts,
                               double number) {
    if (w->rank == 0) {
        printf("%s{\"bytes\": %d", first ? "[" : ", ", bytes);
    }
    for (int i = 0; i < parts; i++) {
        double all = 0;
        must(MPI_Reduce(&sums[i], &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
        if (w->rank == 0) {
            printf(", \"%s\": %.6g", names[i], all * 1e6 / number);
        }
    }
    if (w->rank == 0) {
        printf("}");
    }
}

#endif
