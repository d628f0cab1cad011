/*
 * Random programs: communicators of random ranks come and go, and collectives of random sizes and
 * roots are called on them, by one thread or by two. Every result is checked.
 *
 *     trials SEED PROGRAMS THREADS [started]
 *
 * started: most calls are nonblocking, and ranks come to their end at different times.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 150, COMMS = 2, WAYS = 2, MOST = 3000, KINDS = 10 };

struct player {
    unsigned long state; /* of the random numbers, alike on all ranks */
    MPI_Comm world;      /* of this thread alone */
    MPI_Comm comms[COMMS];
    int *send, *receive;
    int mixes, starts; /* some calls are nonblocking, this one is */
    MPI_Request request;
};

/* Ranks wait for a nonblocking call at different times, and look at it before. */
static void end(struct player *player, int me, int call) {
    int done = 0;
    const double until = MPI_Wtime() + 2e-4 * ((me + call) % 4);
    while (MPI_Wtime() < until)
        ;
    if (call % 2)
        MPI_Test(&player->request, &done, MPI_STATUS_IGNORE);
    MPI_Wait(&player->request, MPI_STATUS_IGNORE);
}

#define CALL(upper, lower, ...)                                                                    \
    (player->starts ? (MPI_I##lower(__VA_ARGS__, &player->request), end(player, me, call))         \
                    : (void)MPI_##upper(__VA_ARGS__))

static unsigned draw(struct player *player, unsigned limit) {
    player->state = player->state * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(player->state >> 33) % limit;
}

static void check(int holds, const char *what, int call) {
    if (!holds) {
        fprintf(stderr, "wrong: %s in call %d\n", what, call);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The i-th number that rank `from` sends to rank `to` in a call. */
static int number(int call, int from, int to, int i) {
    return (call * 7 + from * 31 + to * 17 + i) % 1000;
}

/* The sum of what ranks 0 to last contribute for block `to`. */
static int sum(int call, int last, int to, int i) {
    int all = 0;
    for (int from = 0; from <= last; from++)
        all += number(call, from, to, i);
    return all;
}

static void fill(struct player *player, int call, int me, int blocks, int count) {
    for (int to = 0; to < blocks; to++)
        for (int i = 0; i < count; i++)
            player->send[to * count + i] = number(call, me, to, i);
    for (int i = 0; i < blocks * count + 1; i++)
        player->receive[i] = -1;
}

static void call_on(struct player *player, MPI_Comm comm, int kind, int count, unsigned any,
                    int call) {
    int me = 0, p = 0;
    int *send = player->send, *receive = player->receive;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    const int root = (int)(any % (unsigned)p);
    fill(player, call, me, p, count);
    switch (kind) {
    case 0:
        CALL(Bcast, bcast, send, count, MPI_INT, root, comm);
        for (int i = 0; i < count; i++)
            check(send[i] == number(call, root, 0, i), "bcast", call);
        break;
    case 1:
        CALL(Gather, gather, send, count, MPI_INT, receive, count, MPI_INT, root, comm);
        for (int i = 0; me == root && i < p * count; i++)
            check(receive[i] == number(call, i / count, 0, i % count), "gather", call);
        break;
    case 2:
        CALL(Scatter, scatter, send, count, MPI_INT, receive, count, MPI_INT, root, comm);
        for (int i = 0; i < count; i++)
            check(receive[i] == number(call, root, me, i), "scatter", call);
        break;
    case 3:
        CALL(Allgather, allgather, send, count, MPI_INT, receive, count, MPI_INT, comm);
        for (int i = 0; i < p * count; i++)
            check(receive[i] == number(call, i / count, 0, i % count), "allgather", call);
        break;
    case 4:
        CALL(Alltoall, alltoall, send, count, MPI_INT, receive, count, MPI_INT, comm);
        for (int i = 0; i < p * count; i++)
            check(receive[i] == number(call, i / count, me, i % count), "alltoall", call);
        break;
    case 5:
        CALL(Reduce, reduce, send, receive, count, MPI_INT, MPI_SUM, root, comm);
        for (int i = 0; me == root && i < count; i++)
            check(receive[i] == sum(call, p - 1, 0, i), "reduce", call);
        break;
    case 6:
        CALL(Allreduce, allreduce, send, receive, count, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            check(receive[i] == sum(call, p - 1, 0, i), "allreduce", call);
        break;
    case 7:
        CALL(Reduce_scatter_block, reduce_scatter_block, send, receive, count, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            check(receive[i] == sum(call, p - 1, me, i), "reduce_scatter_block", call);
        break;
    case 8:
        CALL(Scan, scan, send, receive, count, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            check(receive[i] == sum(call, me, 0, i), "scan", call);
        break;
    default:
        CALL(Exscan, exscan, send, receive, count, MPI_INT, MPI_SUM, comm);
        for (int i = 0; me > 0 && i < count; i++)
            check(receive[i] == sum(call, me - 1, 0, i), "exscan", call);
    }
    check(receive[p * count] == -1, "end of the buffer", call);
}

/* A duplicate, a part, or the ranks in another order. */
static MPI_Comm make(struct player *player) {
    MPI_Comm comm = MPI_COMM_NULL;
    int me = 0;
    MPI_Comm_rank(player->world, &me);
    const unsigned way = draw(player, 4), parts = 1 + draw(player, 3);
    if (way == 0)
        MPI_Comm_dup(player->world, &comm);
    else
        MPI_Comm_split(player->world, way == 1 ? me / 2 : me % (int)parts,
                       way == 3 ? -me : me, &comm);
    return comm;
}

/* The same few sizes again and again, as programs have them, so that trials end. */
static void *play(void *argument) {
    struct player *player = argument;
    unsigned counts[WAYS], kinds[WAYS];
    for (int i = 0; i < WAYS; i++) {
        counts[i] = 1 + draw(player, draw(player, 2) ? MOST : 50);
        kinds[i] = draw(player, KINDS);
    }
    for (int i = 0; i < COMMS; i++)
        player->comms[i] = make(player);
    for (int call = 0; call < CALLS; call++) {
        const unsigned at = draw(player, COMMS), which = draw(player, WAYS), root = draw(player, 60);
        player->starts = player->mixes && draw(player, 4) > 0;
        MPI_Comm comm = draw(player, 5) == 0 ? player->world : player->comms[at];
        call_on(player, comm, (int)kinds[which], (int)counts[draw(player, WAYS)], root, call);
        if (draw(player, 60) == 0) {
            MPI_Comm_free(&player->comms[at]);
            player->comms[at] = make(player);
        }
    }
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&player->comms[i]);
    return NULL;
}

int main(int argc, char **argv) {
    int provided = 0, rank = 0, size = 0;
    const unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const int programs = argc > 2 ? atoi(argv[2]) : 1, threads = argc > 3 ? atoi(argv[3]) : 1;
    struct player players[2] = {{0}};
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int t = 0; t < threads; t++) {
        const size_t ints = (size_t)size * MOST + 1;
        MPI_Comm_dup(MPI_COMM_WORLD, &players[t].world);
        players[t].mixes = argc > 4;
        players[t].send = malloc(ints * sizeof(int));
        players[t].receive = malloc(ints * sizeof(int));
    }
    for (int program = 0; program < programs; program++) {
        for (int t = 0; t < threads; t++)
            players[t].state = seed * 1000003UL + (unsigned long)(2 * program + t) * 7919UL;
        if (threads > 1)
            pthread_create(&thread, NULL, play, &players[1]);
        play(&players[0]);
        if (threads > 1)
            pthread_join(thread, NULL);
    }
    for (int t = 0; t < threads; t++) {
        MPI_Comm_free(&players[t].world);
        free(players[t].send);
        free(players[t].receive);
    }
    MPI_Finalize();
    if (rank == 0)
        puts("passed");
    return 0;
}
