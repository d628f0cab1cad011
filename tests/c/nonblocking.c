/*
 * Legal programs with nonblocking collectives that would hang if a collective waited in its start,
 * or went on only in its own wait. Run with four ranks at MPI_THREAD_MULTIPLE if the library has
 * it. Prints each one's name before it begins, and "passed" at the end.
 *
 *   nonblocking [threads | computes FILE]
 *
 * computes: rank 0 calls nothing of MPI until rank 1, which waits for its collective, makes the
 * file.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1 << 18, MANY = 12 };

static int rank, size, level;
static int *from, *to, *more;

static void fail(const char *what) {
    printf("rank %d: wrong: %s\n", rank, what);
    (void)fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int holds, const char *what) {
    if (!holds) {
        fail(what);
    }
}

static void fill(int *data, int count, int value) {
    for (int i = 0; i < count; i++) {
        data[i] = value + i % 7;
    }
}

static void check_sum(const int *data, int count) {
    for (int i = 0; i < count; i++) {
        check(data[i] == size * (size - 1) / 2 + size * (i % 7), "a sum");
    }
}

static void say(const char *name) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s\n", name);
        (void)fflush(stdout);
    }
}

static MPI_Comm duplicate(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
}

/* The last rank waits, and only then lets rank 1 out of a blocking receive. */
static void blocked_in_receive(MPI_Comm comm) {
    MPI_Request request;
    int token = 0;
    MPI_Ibcast(to, COUNT, MPI_INT, 0, comm, &request);
    if (rank == 1) {
        MPI_Recv(&token, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == size - 1) {
        MPI_Send(&token, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
    }
}

/* Rank 1 starts only after rank 0 has. */
static void start_then_send(MPI_Comm comm) {
    MPI_Request request;
    int token = 0;
    if (rank == 1) {
        MPI_Recv(&token, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Iallreduce(from, to, COUNT, MPI_INT, MPI_SUM, comm, &request);
    if (rank == 0) {
        MPI_Send(&token, 1, MPI_INT, 1, 8, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check_sum(to, COUNT);
}

/* Calls that wait for all ranks, on another communicator, while some have only started. */
static void other_collectives(MPI_Comm comm) {
    MPI_Request request;
    MPI_Comm made;
    MPI_File file;
    char name[64] = "";
    if (rank == 0) {
        (void)snprintf(name, sizeof name, "nonblocking-%p", (void *)to);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Iallreduce(from, to, COUNT, MPI_INT, MPI_SUM, comm, &request);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &made);
    MPI_Comm_free(&made);
    MPI_Comm_dup(comm, &made);
    MPI_Comm_free(&made);
    check(MPI_File_open(MPI_COMM_WORLD, name,
                        MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                        &file) == MPI_SUCCESS,
          "a file");
    MPI_File_close(&file);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check_sum(to, COUNT);
}

static void opposite_orders(MPI_Comm comm) {
    MPI_Comm pair[2] = {comm, duplicate()};
    MPI_Request requests[2];
    int *other = malloc(COUNT * sizeof *other);
    for (int i = 0; i < 2; i++) {
        const int which = (i + rank) % 2;
        MPI_Iallreduce(from, which ? other : to, COUNT, MPI_INT, MPI_SUM, pair[which],
                       &requests[which]);
    }
    MPI_Wait(&requests[rank / 2], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1 - rank / 2], MPI_STATUS_IGNORE);
    check_sum(to, COUNT);
    check_sum(other, COUNT);
    free(other);
    MPI_Comm_free(&pair[1]);
}

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int freed(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete) {
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* Collectives among a persistent, a point-to-point and the program's own generalized request. */
static void all_kinds(MPI_Comm comm) {
    MPI_Request requests[6];
    MPI_Status statuses[6];
    int in[2] = {0, 0}, out[2] = {3, 4}, sum = 0, left = 6;
    MPI_Iallreduce(from, to, COUNT, MPI_INT, MPI_SUM, comm, &requests[0]);
    MPI_Recv_init(&in[0], 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Start(&requests[1]);
    MPI_Irecv(&in[1], 1, MPI_INT, (rank + size - 1) % size, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[3]);
    MPI_Grequest_start(query, freed, cancelled, NULL, &requests[4]);
    MPI_Ibarrier(comm, &requests[5]);
    MPI_Request own = requests[1];
    MPI_Send(&out[0], 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    MPI_Send(&out[1], 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD);
    MPI_Grequest_complete(requests[4]);
    while (left > 0) {
        int count = 0, which[6], index = 0;
        MPI_Testsome(6, requests, &count, which, statuses);
        if (count > 0) {
            left -= count;
        } else if (left > 0 && MPI_Waitany(6, requests, &index, &statuses[0]) == MPI_SUCCESS) {
            left--;
        }
    }
    check(in[0] == 3 && in[1] == 4 && sum == size * (size - 1) / 2, "messages");
    check_sum(to, COUNT);
    MPI_Request_free(&own);
}

/* The communicator and the types are freed while the collective is under way. */
static void freed_early(void) {
    MPI_Comm comm = duplicate();
    MPI_Request request;
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    fill(to, COUNT, rank == 0 ? 5 : 0);
    MPI_Ibcast(to, COUNT / 2, pair, 0, comm, &request);
    MPI_Type_free(&pair);
    MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(to[0] == 5 && to[COUNT - 1] == 5 + (COUNT - 1) % 7, "a broadcast");
}

static void many_at_once(MPI_Comm comm) {
    MPI_Request requests[MANY];
    int sums[MANY];
    for (int i = 0; i < MANY; i++) {
        MPI_Iallreduce(&rank, &sums[i], 1, MPI_INT, i % 2 ? MPI_MAX : MPI_SUM, comm, &requests[i]);
    }
    MPI_Barrier(comm);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[MANY - 2], MPI_STATUS_IGNORE);
    MPI_Iallreduce(from, to, COUNT, MPI_INT, MPI_SUM, comm, &requests[0]);
    /* With a null request, and one that is under way. */
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    check_sum(to, COUNT);
    for (int i = 0; i < MANY; i++) {
        check(sums[i] == (i % 2 ? size - 1 : size * (size - 1) / 2), "one of many");
    }
}

/* A number each. Then odd ranks with large counts. Rank r sends 100 (r + t) + 1 numbers to rank t. The arrays are
 * overwritten before the end, which variants allow. */
static void exchange(MPI_Comm comm) {
    MPI_Request request;
    int out[8], in[8], out_at[8], in_at[8];
    int *received = to + COUNT / 2;
    for (int i = 0; i < size; i++) {
        out[i] = 10 * rank + i;
    }
    MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; i++) {
        check(in[i] == 10 * i + rank, "an alltoall");
        out[i] = in[i] = 100 * (rank + i) + 1;
        out_at[i] = in_at[i] = 1000 * i;
        for (int j = 0; j < out[i]; j++) {
            to[out_at[i] + j] = 1000 * rank + i;
        }
    }
#if MPI_VERSION >= 4
    if (rank % 2) {
        MPI_Count many[2][8];
        MPI_Aint far[2][8];
        for (int i = 0; i < size; i++) {
            many[0][i] = out[i], many[1][i] = in[i];
            far[0][i] = out_at[i], far[1][i] = in_at[i];
        }
        MPI_Ialltoallv_c(to, many[0], far[0], MPI_INT, received, many[1], far[1], MPI_INT, comm,
                         &request);
        memset(many, 1, sizeof many);
    } else
#endif
        MPI_Ialltoallv(to, out, out_at, MPI_INT, received, in, in_at, MPI_INT, comm, &request);
    memset(out, 1, sizeof out);
    memset(in_at, 1, sizeof in_at);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < in[i]; j++) {
            check(received[1000 * i + j] == 1000 * i + rank, "an alltoallv");
        }
    }
}

/* Some ranks call the large-count functions of MPI-4, others the plain ones. */
static void large_counts(MPI_Comm comm) {
    exchange(comm);
#if MPI_VERSION >= 4
    MPI_Request requests[2];
    MPI_Count counts[8];
    MPI_Aint displs[8];
    int plain[8], starts[8];
    for (int i = 0; i < size; i++) {
        counts[i] = plain[i] = 1000 + i;
        displs[i] = starts[i] = 2000 * i;
    }
    if (rank % 2) {
        MPI_Iallgatherv_c(from, counts[rank], MPI_INT, to, counts, displs, MPI_INT, comm,
                          &requests[0]);
        MPI_Ibcast_c(to + COUNT / 2, COUNT / 2, MPI_INT, 0, comm, &requests[1]);
    } else {
        MPI_Iallgatherv(from, plain[rank], MPI_INT, to, plain, starts, MPI_INT, comm, &requests[0]);
        MPI_Ibcast(to + COUNT / 2, COUNT / 2, MPI_INT, 0, comm, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < plain[i]; j++) {
            check(to[starts[i] + j] == i + j % 7, "an allgatherv");
        }
    }
#else
    (void)comm;
#endif
}

/* Takes as much stack as numbers. */
static void add_with_room(void *in, void *inout, int *count, MPI_Datatype *type) {
    const int *own = in;
    int *sum = inout, room[*count];
    (void)type;
    for (int i = 0; i < *count; i++) {
        room[i] = own[i] + sum[i];
    }
    memcpy(sum, room, sizeof room);
}

/* The library may call the op of its own collective while a variant waits. */
static void op_with_room(MPI_Comm comm) {
    MPI_Request requests[2];
    MPI_Op op;
    MPI_Op_create(add_with_room, 1, &op);
    for (int i = 0; i < 20; i++) {
        PMPI_Iallreduce(from, to, COUNT, MPI_INT, op, comm, &requests[0]);
        MPI_Ibcast(rank == 0 ? from : more, COUNT, MPI_INT, 0, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check_sum(to, COUNT);
    }
    MPI_Op_free(&op);
}

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40300000
enum { SHORT = 1000 };
static atomic_int polled; /* what MPICH calls when it makes progress */
static MPIX_Async_poll_function *polls;

static int poll_counted(MPIX_Async_thing thing) {
    const int found = polls(thing);
    atomic_fetch_sub(&polled, found == MPIX_ASYNC_DONE);
    return found;
}

/* Called by the library instead of MPICH's. */
int MPIX_Async_start(MPIX_Async_poll_function *poll, void *extra, MPIX_Stream stream) {
    polls = poll;
    atomic_fetch_add(&polled, 1);
    return PMPIX_Async_start(poll_counted, extra, stream);
}

static void check_polled(void) {
    check(polled <= 2, "more and more functions are called in progress");
}
#else
enum { SHORT = 50 };
static void check_polled(void) {
}
#endif

/* Most end in their start, on the root. */
static void short_ones(MPI_Comm comm) {
    MPI_Request request;
    for (int i = 0; i < SHORT; i++) {
        int told = rank == 0 ? i : -1;
        MPI_Ibcast(&told, 1, MPI_INT, 0, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check(told == i, "a short broadcast");
        check_polled();
    }
}

struct thread {
    MPI_Comm comm;
    MPI_Request request;
    int *result;
};

static void *wait_in_thread(void *argument) {
    struct thread *self = argument;
    MPI_Wait(&self->request, MPI_STATUS_IGNORE);
    return NULL;
}

static void *start_in_thread(void *argument) {
    struct thread *self = argument;
    for (int i = 0; i < 20; i++) {
        MPI_Iallreduce(from, self->result, COUNT / 16, MPI_INT, MPI_SUM, self->comm,
                       &self->request);
        MPI_Wait(&self->request, MPI_STATUS_IGNORE);
        check_sum(self->result, COUNT / 16);
    }
    return NULL;
}

static void in_threads(MPI_Comm comm) {
    pthread_t threads[2];
    struct thread own[2] = {{.comm = comm}, {.comm = duplicate()}};
    for (int i = 0; i < 2; i++) {
        own[i].result = calloc(COUNT, sizeof(int));
        MPI_Iallreduce(from, own[i].result, COUNT, MPI_INT, MPI_SUM, own[i].comm, &own[i].request);
        (void)pthread_create(&threads[i], NULL, wait_in_thread, &own[i]);
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        check_sum(own[i].result, COUNT);
        (void)pthread_create(&threads[i], NULL, start_in_thread, &own[i]);
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        free(own[i].result);
    }
    MPI_Comm_free(&own[1].comm);
}

/* Ends only if collectives go on while their ranks compute. */
static void computes(MPI_Comm comm, const char *file) {
    const struct timespec a_little = {.tv_nsec = 1000000};
    MPI_Request request;
    MPI_Iallreduce(from, to, COUNT, MPI_INT, MPI_SUM, comm, &request);
    for (int i = 0; rank == 0 && access(file, F_OK) != 0; i++) {
        check(i < 20000, "nothing goes on while a rank computes");
        (void)nanosleep(&a_little, NULL);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 1) {
        FILE *made = fopen(file, "w");
        check(made != NULL && fclose(made) == 0, "no file");
    }
    check_sum(to, COUNT);
    MPI_Barrier(comm);
    if (rank == 0) {
        (void)unlink(file);
    }
}

int main(int argc, char **argv) {
    static MPI_Request last;
    const int wanted =
        argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    from = malloc(COUNT * sizeof *from);
    to = malloc(COUNT * sizeof *to);
    more = malloc(COUNT * sizeof *more);
    fill(from, COUNT, rank);
    for (int i = 0; i < 2; i++) {
        MPI_Comm comm = i == 0 ? MPI_COMM_WORLD : duplicate();
        say("blocked in a receive"), blocked_in_receive(comm);
        say("start, then send"), start_then_send(comm);
        say("other collectives"), other_collectives(comm);
        say("opposite orders"), opposite_orders(comm);
        say("all kinds of requests"), all_kinds(comm);
        say("many at once"), many_at_once(comm);
        say("large counts"), large_counts(comm);
        say("an op with room"), op_with_room(comm);
        say("short ones"), short_ones(comm);
        if (level == MPI_THREAD_MULTIPLE) {
            say("threads"), in_threads(comm);
        }
        if (argc > 2) {
            say("computes"), computes(comm, argv[2]);
        }
        if (i > 0) {
            MPI_Comm_free(&comm);
        }
    }
    say("freed early"), freed_early();
    say("passed");
    MPI_Ibarrier(MPI_COMM_WORLD, &last); /* completed, but not waited for */
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
