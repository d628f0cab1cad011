/*
 * Collectives through a node's shared-memory window, in a program linked with the runtime's
 * objects. It ends with a message at the first wrong result, and prints "passed" at the end. Commands between `,` run
 * in turn, on communicators of their own; each says when it begins.
 *
 *   shared random SEED STEPS   every collective with every type at the sizes that matter, then
 *                              random ones on two communicators at a time
 *   shared threads SEED STEPS  random ones, two threads with a communicator each
 *   shared progress            ranks that cannot come before a waiting one's message has gone
 *   shared cycles NUMBER       communicators made, used and freed: prints the heap's growth
 *   shared free                communicators freed in different orders, one with a request left
 *   shared ready NUMBER        prints how many of so many communicators get windows
 *   shared refuse WHAT RANK    where one rank gets no "room", "pages" or "window"; then all do
 *   shared latency             prints microseconds per call, ours and the library's
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "node/shared_window.h"
#include "shared_play.h"

/* ---- what the runtime asks for and may not get ----------------------------------------------- */

static const char *refused = "nothing";
static int nwindows;

int statvfs(const char *path, struct statvfs *space) {
    int (*real)(const char *, struct statvfs *) = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "statvfs");
    const int err = real(path, space);
    if (strcmp(refused, "room") == 0)
        space->f_bavail = 0;
    return err;
}

int madvise(void *memory, size_t bytes, int advice) {
    int (*real)(void *, size_t, int) = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "madvise");
    if (strcmp(refused, "pages") == 0) {
        errno = ENOMEM;
        return -1;
    }
    return real(memory, bytes, advice);
}

int PMPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory,
                             MPI_Win *window) {
    int (*real)(MPI_Aint, int, MPI_Info, MPI_Comm, void *, MPI_Win *) = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Win_allocate_shared");
    nwindows++;
    const int err = real(bytes, unit, info, comm, memory, window);
    return strcmp(refused, "window") == 0 ? MPI_ERR_NO_MEM : err;
}

/* ---- what the program does ------------------------------------------------------------------- */

static int world_size(void) {
    int size = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static int world_rank(void) {
    int rank = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static struct cf_comm *open_comm(MPI_Comm comm) {
    struct cf_comm *found = NULL;
    bool ready = false;

    check(cf_comm_get(comm, &found) == MPI_SUCCESS && found != NULL);
    check(cf_shared_ready(found, &ready) == MPI_SUCCESS && ready);
    return found;
}

static struct play begin_play(MPI_Comm comm, uint64_t seed) {
    struct cf_comm *state = open_comm(comm);
    const struct cf_layout *at = &state->layout;
    struct play play = {.comm = state, .n = at->node_size[at->node], .me = at->node_rank};

    play.alike.state = mix(seed * 64 + (uint64_t)at->node);
    play.own.state = mix(seed * 64 + (uint64_t)at->rank) << 8;
    play.step = seed << 16;
    check(play.n <= 64);
    return play;
}

/* The same ranks in the opposite order. */
static MPI_Comm reversed(void) {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    return comm;
}

/* Short broadcasts in a row, more than there are slots, to ranks that come late. */
static void run_ahead(const struct play *play) {
    const struct timespec late = {.tv_nsec = 20000000};
    struct cf_unit unit;

    check(cf_unit_of(MPI_INT, &unit) == MPI_SUCCESS);
    if (play->me > 0)
        (void)nanosleep(&late, NULL);
    for (int i = 0; i < 4 * CF_SHARED_SLOTS; i++) {
        int value = play->me == 0 ? i : -1;
        check(cf_shared_bcast(play->comm, &value, 1, &unit, 0) == MPI_SUCCESS && value == i);
    }
}

static void run_random(uint64_t seed, int steps) {
    struct play plays[] = {begin_play(MPI_COMM_WORLD, seed), begin_play(reversed(), seed + 1)};
    struct random which = {mix(seed)};

    play_all(&plays[seed % 2]);
    for (int step = 0; step < steps; step++)
        play_one(&plays[below(&which, 2)]);
    for (int i = 0; i < 200; i++) /* short ones in a row, that nothing holds up */
        play_barrier(&plays[i % 3 == 0]);
    run_ahead(&plays[0]);
}

struct job {
    struct play play;
    MPI_Comm comm;
    uint64_t seed;
    int steps;
};

static void *run_job(void *argument) {
    struct job *job = argument;

#if !defined(OPEN_MPI) /* under which other threads than the main one make no communicators */
    job->play = begin_play(job->comm, job->seed);
#endif
    for (int step = 0; step < job->steps; step++)
        play_one(&job->play);
    check(MPI_Comm_free(&job->comm) == MPI_SUCCESS);
    return NULL;
}

/* Two threads. Both free their communicators; the window of the third stays for MPI_Finalize. */
static void run_threads(uint64_t seed, int steps) {
    struct job jobs[2];
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        jobs[i] = (struct job){.comm = reversed(), .seed = seed + (uint64_t)i, .steps = steps};
#if defined(OPEN_MPI)
        jobs[i].play = begin_play(jobs[i].comm, jobs[i].seed);
#endif
    }
    (void)begin_play(MPI_COMM_WORLD, seed);
    for (int i = 0; i < 2; i++)
        check(pthread_create(&threads[i], NULL, run_job, &jobs[i]) == 0);
    for (int i = 0; i < 2; i++)
        check(pthread_join(threads[i], NULL) == 0);
}

/* Node rank 0 sends a message that needs its help to arrive, and waits in a collective. */
static void run_progress(void) {
    enum { BYTES_SENT = 4 << 20 };
    struct play play = begin_play(MPI_COMM_WORLD, 1);
    char *data = calloc(1, BYTES_SENT);

    check(data != NULL);
    for (int kind = 0; kind < NKINDS; kind++) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (play.me == 0 && play.n > 1)
            MPI_Isend(data, BYTES_SENT, MPI_BYTE, 1, 5, play.comm->layout.node_comm, &request);
        else if (play.me == 1)
            MPI_Recv(data, BYTES_SENT, MPI_BYTE, 0, 5, play.comm->layout.node_comm,
                     MPI_STATUS_IGNORE);
        play_kind(&play, kind, &types[DOUBLES], kind % 2 == 0 ? 1 : 20000);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    free(data);
}

static size_t heap(void) {
    const struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

static void run_cycles(int cycles) {
    const int warm = cycles / 10;
    size_t before = 0;

    for (int cycle = 0; cycle < cycles + warm; cycle++) {
        MPI_Comm comm = reversed();
        struct play play = begin_play(comm, (uint64_t)cycle);
        if (cycle == warm)
            before = heap();
        play_kind(&play, 2, &types[INTS], cycle % 100);
        check(MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
    const double growth = ((double)heap() - (double)before) / cycles;
    double most = 0;
    MPI_Reduce(&growth, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (world_rank() == 0)
        printf("cycles %d windows %d bytes-per-cycle %.2f\n", cycles, nwindows, most);
}

/* Nobody waits for another one in MPI_Comm_free: in no order, nor while a request is left. */
static void run_free(void) {
    MPI_Comm comms[2];
    MPI_Request request = MPI_REQUEST_NULL;
    int rank = 0;
    int data = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        (void)open_comm(comms[i]);
    }
    if (rank == 0)
        MPI_Recv_init(&data, 1, MPI_INT, 0, 1, comms[0], &request);
    else
        MPI_Recv(&data, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(MPI_Comm_free(&comms[rank % 2]) == MPI_SUCCESS);
    check(MPI_Comm_free(&comms[1 - rank % 2]) == MPI_SUCCESS);
    if (rank + 1 < world_size())
        MPI_Send(&data, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Request_free(&request);
}

/* Whether a communicator has windows, on all of its ranks alike. */
static bool is_ready(MPI_Comm handle) {
    struct cf_comm *comm = NULL;
    int ready[] = {0, 0};

    check(cf_comm_get(handle, &comm) == MPI_SUCCESS && comm != NULL);
    for (int again = 0; again < 2; again++) {
        bool mine = false;
        check(cf_shared_ready(comm, &mine) == MPI_SUCCESS);
        ready[again] = mine;
    }
    int sum = 0;
    MPI_Allreduce(&ready[0], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(ready[0] == ready[1] && sum == ready[0] * world_size());
    return ready[0];
}

static void run_ready(int number) {
    MPI_Comm *comms = calloc((size_t)number, sizeof *comms);
    int nready = 0;

    check(comms != NULL);
    for (int i = 0; i < number; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        nready += is_ready(comms[i]);
    }
    for (int i = 0; i < number; i++)
        MPI_Comm_free(&comms[i]);
    if (world_rank() == 0)
        printf("ready %d of %d\n", nready, number);
    free(comms);
}

static void run_refuse(const char *what, int who) {
    MPI_Comm without = MPI_COMM_NULL;
    MPI_Comm comm = MPI_COMM_NULL;

    MPI_Comm_dup(MPI_COMM_WORLD, &without);
    refused = world_rank() == who ? what : "nothing";
    const bool first = is_ready(without);
    refused = "nothing";
    MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* never freed: the next command must not get its window */
    struct play play = begin_play(comm, 1);
    for (int kind = 0; kind < NKINDS; kind++)
        play_kind(&play, kind, &types[DOUBLES], 10000);
    check(is_ready(without) == first);
    if (world_rank() == 0)
        printf("ready %d\n", first);
}

static double microseconds(struct cf_comm *comm, int kind, int count) {
    enum { CALLS = 100000 };
    static double from[4096], to[4096];
    const MPI_Comm node = comm->layout.node_comm;
    const int calls = CALLS / (1 + count / 16);
    struct cf_unit unit;
    double begin = 0;

    check(cf_unit_of(MPI_DOUBLE, &unit) == MPI_SUCCESS);
    for (int i = -calls / 10; i < calls; i++) {
        if (i == 0)
            begin = MPI_Wtime();
        const int err = kind == 0   ? cf_shared_barrier(comm)
                        : kind == 1 ? PMPI_Barrier(node)
                        : kind == 2 ? cf_shared_bcast(comm, from, count, &unit, 0)
                        : kind == 3 ? PMPI_Bcast(from, count, MPI_DOUBLE, 0, node)
                        : kind == 4 ? cf_shared_allreduce(comm, from, to, count, &unit, MPI_SUM)
                                    : PMPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, node);
        check(err == MPI_SUCCESS);
    }
    return (MPI_Wtime() - begin) / calls * 1e6;
}

static void run_latency(void) {
    static const char *const names[] = {"barrier", "bcast", "allreduce"};
    struct cf_comm *comm = open_comm(MPI_COMM_WORLD);

    for (int count = 1; count <= 4096; count *= 64)
        for (int kind = 0; kind < 3; kind++) {
            double best[] = {1e9, 1e9};
            for (int again = 0; again < 6; again++) {
                const double time = microseconds(comm, 2 * kind + again % 2, count);
                best[again % 2] = time < best[again % 2] ? time : best[again % 2];
            }
            if (comm->layout.rank == 0)
                printf("%s of %d bytes: shared %.3f native %.3f\n", names[kind], 8 * count, best[0],
                       best[1]);
        }
}

static void run(int nwords, char **words) {
    const char *what = nwords > 0 ? words[0] : "";
    const long first = nwords > 1 ? atol(words[1]) : 0;
    const int second = nwords > 2 ? atoi(words[2]) : 0;

    PMPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0)
        fprintf(stderr, "case: %s %s\n", what, nwords > 1 ? words[1] : "");
    if (strcmp(what, "random") == 0)
        run_random((uint64_t)first, second);
    else if (strcmp(what, "threads") == 0)
        run_threads((uint64_t)first, second);
    else if (strcmp(what, "progress") == 0)
        run_progress();
    else if (strcmp(what, "cycles") == 0)
        run_cycles((int)first);
    else if (strcmp(what, "free") == 0)
        run_free();
    else if (strcmp(what, "ready") == 0)
        run_ready((int)first);
    else if (strcmp(what, "refuse") == 0)
        run_refuse(words[1], second);
    else if (strcmp(what, "latency") == 0)
        run_latency();
    else
        check(!"a known command");
}

int main(int argc, char **argv) {
    const bool threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    int provided = MPI_THREAD_SINGLE;

    check(MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                          &provided) == MPI_SUCCESS);
    check(!threads || provided == MPI_THREAD_MULTIPLE);
    check(cf_runtime_activate() == MPI_SUCCESS);
    make_types();
    for (int begin = 1, end = 1; end <= argc; end++)
        if (end == argc || strcmp(argv[end], ",") == 0) {
            run(end - begin, argv + begin);
            begin = end + 1;
        }
    free_types();
    const bool tells = world_rank() == 0;
    check(MPI_Finalize() == MPI_SUCCESS);
    if (tells)
        puts("passed");
    return 0;
}
