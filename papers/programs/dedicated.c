/*
 * The message rate of threads that only send to a thread that only receives, as in the runtime of
 * Legion: collforge probe message-rate --calls polled, after Zambre, Chandramowlishwaran and Balaji
 * (2020), section 5.3.
 *
 *   dedicated par_comm|streams polled SENDERS SECONDS MS BYTES...      (two ranks)
 *
 * Each of the two ranks has SENDERS threads that send, and one that receives from those of the
 * other rank. par_comm: each sender has a communicator, so the receiver polls all of them, and with
 * them the interfaces of its own rank's senders. streams: each thread has a stream of one multiplex
 * communicator (streams.h) in the place of an endpoint, and the receiver polls its own. A sender
 * waits for a reply after WINDOW messages, which bounds those that nobody has received. Prints for
 * each size the messages per second of both ranks together. MS has no meaning here.
 */
#include <mpi.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams.h"

enum { WINDOW = 64, MOST_SENDERS = 63, MOST_BYTES = 1 << 20, WARM_UP = 4, REPLY = 100 };

static void must(int err) {
    if (err != MPI_SUCCESS) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

struct probe {
    bool streams;
    int senders;        /* also the number of the receiver's stream */
    int other;          /* rank */
    atomic_int sending; /* threads of this rank */
    MPIX_Stream stream[MOST_SENDERS + 1];
    MPI_Comm comm[MOST_SENDERS]; /* of each sender; streams: the first alone */
};

static void open_probe(struct probe *p) {
    for (int i = 0; !p->streams && i < p->senders; i++) {
        must(MPI_Comm_dup(MPI_COMM_WORLD, &p->comm[i]));
    }
    if (p->streams) {
        for (int i = 0; i <= p->senders; i++) {
            must(MPIX_Stream_create(MPI_INFO_NULL, &p->stream[i]));
        }
        must(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, p->senders + 1, p->stream,
                                               &p->comm[0]));
    }
}

static void close_probe(struct probe *p) {
    for (int i = 0; i < (p->streams ? 1 : p->senders); i++) {
        must(MPI_Comm_free(&p->comm[i]));
    }
    for (int i = 0; p->streams && i <= p->senders; i++) {
        must(MPIX_Stream_free(&p->stream[i]));
    }
}

/* A message of a sender of the other rank to this rank's receiver, or the reply to a sender here.
 */
static void start_receive(const struct probe *p, int sender, bool reply, char *data, int bytes,
                          MPI_Request *request) {
    const int tag = reply ? REPLY : sender;

    must(p->streams
             ? MPIX_Stream_irecv(data, bytes, MPI_CHAR, p->other, tag, p->comm[0],
                                 reply ? p->senders : sender, reply ? sender : p->senders, request)
             : MPI_Irecv(data, bytes, MPI_CHAR, p->other, tag, p->comm[sender], request));
}

static void start_send(const struct probe *p, int sender, bool reply, const char *data, int bytes,
                       MPI_Request *request) {
    const int tag = reply ? REPLY : sender;

    must(p->streams
             ? MPIX_Stream_isend(data, bytes, MPI_CHAR, p->other, tag, p->comm[0],
                                 reply ? p->senders : sender, reply ? sender : p->senders, request)
             : MPI_Isend(data, bytes, MPI_CHAR, p->other, tag, p->comm[sender], request));
}

static void send_bursts(struct probe *p, int sender, const char *data, int bytes, int bursts) {
    MPI_Request requests[WINDOW];

    for (int burst = 0; burst < bursts; burst++) {
        for (int i = 0; i < WINDOW; i++) {
            start_send(p, sender, false, data, bytes, &requests[i]);
        }
        must(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE));
        start_receive(p, sender, true, NULL, 0, &requests[0]);
        must(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }
    atomic_fetch_sub(&p->sending, 1);
}

/* A receive is posted for each sender. At the end the stream still makes progress until this rank's
 * senders have ended, because the last replies may not have left (streams.h). */
static void receive_bursts(struct probe *p, char *data, int bytes, int bursts) {
    int missing[MOST_SENDERS] = {0};
    int senders = p->senders; /* from which messages are missing */
    MPI_Request requests[MOST_SENDERS];

    for (int i = 0; i < p->senders; i++) {
        missing[i] = bursts * WINDOW;
        start_receive(p, i, false, data, bytes, &requests[i]);
    }
    for (int i = 0; senders > 0; i = (i + 1) % p->senders) {
        int arrived = 0;

        if (missing[i] > 0) {
            must(MPI_Test(&requests[i], &arrived, MPI_STATUS_IGNORE));
        }
        if (!arrived) {
            continue;
        }
        if (--missing[i] % WINDOW == 0) {
            MPI_Request reply = MPI_REQUEST_NULL;
            start_send(p, i, true, NULL, 0, &reply);
            must(MPI_Wait(&reply, MPI_STATUS_IGNORE));
        }
        if (missing[i] > 0) {
            start_receive(p, i, false, data, bytes, &requests[i]);
        } else {
            senders--;
        }
    }
    while (p->streams && atomic_load(&p->sending) > 0) {
        must(MPIX_Stream_progress(p->stream[p->senders]));
    }
}

/* Seconds until all bursts have ended. */
static double time_bursts(struct probe *p, int bytes, int bursts) {
    open_probe(p);
    atomic_store(&p->sending, p->senders);
    must(MPI_Barrier(MPI_COMM_WORLD));
    const double begin = MPI_Wtime();
#pragma omp parallel num_threads(p->senders + 1)
    {
        char *data = calloc((size_t)bytes + 1, 1);
        if (data == NULL || omp_get_num_threads() != p->senders + 1) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        } else if (omp_get_thread_num() < p->senders) {
            send_bursts(p, omp_get_thread_num(), data, bytes, bursts);
        } else {
            receive_bursts(p, data, bytes, bursts);
        }
        free(data);
    }
    barrier_with(p->stream, p->streams ? p->senders + 1 : 0);
    double seconds = MPI_Wtime() - begin;
    must(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    close_probe(p);
    return seconds;
}

/* Runs as many bursts as take about the wanted time. */
static double measure(struct probe *p, int bytes, double wanted) {
    const double first = time_bursts(p, bytes, WARM_UP);
    int bursts = (int)(WARM_UP * wanted / first);

    bursts = bursts < WARM_UP ? WARM_UP : bursts > 100000 ? 100000 : bursts;
    return 2.0 * p->senders * bursts * WINDOW / time_bursts(p, bytes, bursts);
}

int main(int argc, char **argv) {
    static struct probe probe;
    int provided = MPI_THREAD_SINGLE;
    int rank = 0;
    int size = 0;

    must(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    must(MPI_Comm_size(MPI_COMM_WORLD, &size));
    probe.other = 1 - rank;
    probe.senders = argc > 3 ? atoi(argv[3]) : 0;
    probe.streams = argc > 1 && strcmp(argv[1], "streams") == 0;
    if (argc < 7 || size != 2 || probe.senders < 1 || probe.senders > MOST_SENDERS ||
        provided < MPI_THREAD_MULTIPLE) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 6; i < argc; i++) {
        const int bytes = atoi(argv[i]);
        if (bytes < 0 || bytes > MOST_BYTES) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        const double rate = measure(&probe, bytes, atof(argv[4]));
        if (rank == 0) {
            printf("%s{\"bytes\": %d, \"rate\": %.6g}", i == 6 ? "[" : ", ", bytes, rate);
        }
    }
    if (rank == 0) {
        puts("]");
    }
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
