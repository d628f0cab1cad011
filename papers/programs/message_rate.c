/*
 * The message rate of threads, each on its own communicator or MPI window or all on one, and of
 * processes: collforge probe message-rate, after Zambre, Chandramowlishwaran and Balaji (2020),
 * section 5.
 *
 *   message_rate everywhere|ser_comm|par_comm|streams isend|put|put_free THREADS SECONDS MS
 * BYTES...
 *
 * The first half of the ranks sends to the second: one pair of ranks with THREADS threads each or,
 * everywhere, THREADS pairs. A burst is WINDOW messages of a pair, which complete together (isend:
 * MPI_Waitall, and a reply from the receiver; put: MPI_Win_flush). As many bursts run as take about
 * SECONDS. The targets of put wait in MPI_Barrier. With put_free each thread of a target computes
 * MS milliseconds without a look at MPI, and then frees its window, if it has its own
 * (section 5.2); the number of bursts is that for 0 ms. streams is par_comm over communicators with
 * a stream each (streams.h), for isend. Prints for each size the messages per second of all pairs
 * together, from the begin of the first to the end of the last; of put_free at the ranks that put.
 */
#include <mpi.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams.h"

enum { WINDOW = 64, MOST_PAIRS = 64, MOST_BYTES = 1 << 20, WARM_UP = 4, DATA = 1, BACK = 2 };

static void must(int err) {
    if (err != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

struct probe {
    bool put;
    bool frees; /* the window, after computing */
    bool everywhere;
    bool streams;
    bool own; /* each pair has its own communicator or MPI window */
    int pairs;
    int rank, size;
    MPIX_Stream stream[MOST_PAIRS];
    MPI_Comm comm[MOST_PAIRS];
    MPI_Win window[MOST_PAIRS];
    char *memory[MOST_PAIRS];
};

/* The index of the communicator and MPI window of a thread's pair. */
static int place_of(const struct probe *probe, int thread) {
    return probe->own ? thread : 0;
}

static bool sends(const struct probe *probe) {
    return probe->rank < probe->size / 2;
}

static int partner(const struct probe *probe) {
    return (probe->rank + probe->size / 2) % probe->size;
}

/* ser_comm: tags tell the threads' messages apart. */
static void burst_of_sends(const struct probe *probe, int thread, char *data, int bytes) {
    const MPI_Comm comm = probe->comm[place_of(probe, thread)];
    const int tag = 3 * thread;
    MPI_Request requests[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        must(
            sends(probe)
                ? MPI_Isend(data, bytes, MPI_CHAR, partner(probe), tag + DATA, comm, &requests[i])
                : MPI_Irecv(data, bytes, MPI_CHAR, partner(probe), tag + DATA, comm, &requests[i]));
    }
    must(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE));
    must(sends(probe)
             ? MPI_Recv(NULL, 0, MPI_CHAR, partner(probe), tag + BACK, comm, MPI_STATUS_IGNORE)
             : MPI_Send(NULL, 0, MPI_CHAR, partner(probe), tag + BACK, comm));
}

static void burst_of_puts(const struct probe *probe, int thread, char *data, int bytes) {
    const MPI_Win window = probe->window[place_of(probe, thread)];
    const MPI_Aint target = probe->own ? 0 : (MPI_Aint)thread * MOST_BYTES;

    for (int i = 0; sends(probe) && i < WINDOW; i++) {
        must(MPI_Put(data, bytes, MPI_CHAR, partner(probe), target, bytes, MPI_CHAR, window));
    }
    if (sends(probe)) {
        must(MPI_Win_flush(partner(probe), window));
    }
}

static void run_bursts(const struct probe *probe, int thread, char *data, int bytes, int bursts) {
    for (int i = 0; i < bursts; i++) {
        if (probe->put) {
            burst_of_puts(probe, thread, data, bytes);
        } else {
            burst_of_sends(probe, thread, data, bytes);
        }
    }
}

static int places(const struct probe *probe) {
    return probe->own && !probe->everywhere ? probe->pairs : 1;
}

static void open_probe(struct probe *probe) {
    const MPI_Aint bytes = (MPI_Aint)MOST_BYTES * (probe->own ? 1 : probe->pairs);

    for (int i = 0; i < places(probe); i++) {
        if (probe->streams) {
            must(MPIX_Stream_create(MPI_INFO_NULL, &probe->stream[i]));
            must(MPIX_Stream_comm_create(MPI_COMM_WORLD, probe->stream[i], &probe->comm[i]));
        } else {
            must(MPI_Comm_dup(MPI_COMM_WORLD, &probe->comm[i]));
        }
        if (probe->put) {
            must(MPI_Win_allocate(sends(probe) ? 0 : bytes, 1, MPI_INFO_NULL, probe->comm[i],
                                  &probe->memory[i], &probe->window[i]));
            must(MPI_Win_lock_all(MPI_MODE_NOCHECK, probe->window[i]));
        }
    }
}

static void free_window(struct probe *probe, int place) {
    must(MPI_Win_unlock_all(probe->window[place]));
    must(MPI_Win_free(&probe->window[place]));
}

static void close_probe(struct probe *probe) {
    for (int i = 0; i < places(probe); i++) {
        if (probe->put && !probe->frees) {
            free_window(probe, i);
        }
        must(MPI_Comm_free(&probe->comm[i]));
        if (probe->streams) {
            must(MPIX_Stream_free(&probe->stream[i]));
        }
    }
}

/* Computes `busy` seconds at a target. Returns the time at which this thread's bursts had ended. */
static double run_thread(struct probe *probe, int bytes, int bursts, double busy) {
    const int thread = omp_get_thread_num();
    char *data = malloc((size_t)bytes + 1);
    if (data == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(data, 1, (size_t)bytes + 1);
    const double begin = MPI_Wtime();
    run_bursts(probe, thread, data, bytes, bursts);
    const double end = MPI_Wtime();
    free(data);
    if (probe->frees) {
        while (!sends(probe) && MPI_Wtime() - begin < busy) {
        }
        if (!probe->own) { /* others still use it */
#pragma omp barrier
        }
        if (thread < places(probe)) {
            free_window(probe, thread);
        }
    }
    return end;
}

/* Seconds until all bursts have ended; each thread of a target computes `busy` seconds first. */
static double time_bursts(struct probe *probe, int bytes, int bursts, double busy) {
    const int threads = probe->everywhere ? 1 : probe->pairs;
    double end = 0;

    open_probe(probe);
    must(MPI_Barrier(MPI_COMM_WORLD));
    const double begin = MPI_Wtime();
#pragma omp parallel num_threads(threads) reduction(max : end)
    end = run_thread(probe, bytes, bursts, busy);
    if (probe->streams) {
        barrier_with(probe->stream, places(probe));
    } else {
        must(MPI_Barrier(MPI_COMM_WORLD));
    }
    double seconds = (probe->frees ? end : MPI_Wtime()) - begin;
    if (probe->frees && !sends(probe)) {
        seconds = 0;
    }
    must(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    close_probe(probe);
    return seconds;
}

/* Runs as many bursts as take about the wanted time if no target computes. */
static double measure(struct probe *probe, int bytes, double wanted, double busy) {
    const double first = time_bursts(probe, bytes, WARM_UP, 0);
    int bursts = (int)(WARM_UP * wanted / first);

    bursts = bursts < WARM_UP ? WARM_UP : bursts > 100000 ? 100000 : bursts;
    const double seconds = time_bursts(probe, bytes, bursts, busy);
    return (double)probe->pairs * bursts * WINDOW / seconds;
}

static bool read_arguments(struct probe *probe, int argc, char **argv) {
    if (argc < 7) {
        return false;
    }
    probe->everywhere = strcmp(argv[1], "everywhere") == 0;
    probe->streams = strcmp(argv[1], "streams") == 0;
    probe->own = strcmp(argv[1], "ser_comm") != 0;
    probe->put = strncmp(argv[2], "put", 3) == 0;
    probe->frees = strcmp(argv[2], "put_free") == 0;
    probe->pairs = atoi(argv[3]);
    return probe->pairs >= 1 && probe->pairs <= MOST_PAIRS && !(probe->streams && probe->put) &&
           probe->size == (probe->everywhere ? 2 * probe->pairs : 2);
}

int main(int argc, char **argv) {
    struct probe probe = {0};
    int provided = MPI_THREAD_SINGLE;
    const bool threads = argc > 1 && strcmp(argv[1], "everywhere") != 0;

    must(MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                         &provided));
    must(MPI_Comm_rank(MPI_COMM_WORLD, &probe.rank));
    must(MPI_Comm_size(MPI_COMM_WORLD, &probe.size));
    if (!read_arguments(&probe, argc, argv) || (threads && provided < MPI_THREAD_MULTIPLE)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 6; i < argc; i++) {
        const int bytes = atoi(argv[i]);
        if (bytes < 0 || bytes > MOST_BYTES) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        const double rate = measure(&probe, bytes, atof(argv[4]), atof(argv[5]) / 1e3);
        if (probe.rank == 0) {
            printf("%s{\"bytes\": %d, \"rate\": %.6g}", i == 6 ? "[" : ", ", bytes, rate);
        }
    }
    if (probe.rank == 0) {
        puts("]");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
