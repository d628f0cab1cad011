/*
 * Alltoallvs of many ranks, each a thread of this process, with a variant as generated and an MPI
 * library that only has what this calls. The ranks lie unevenly on the nodes, and not in order.
 *
 *   many RANKS NODES
 *
 * Prints for each rank its node and the bytes of sizes that it keeps, with one lane and with one
 * for each rank of the smallest node; and "passed".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives.h"
#include "data/block_sizes.h"
#include "data/sizes.h"
#include "data/tmpbuf.h"
#include "place/layout.h"

#define must(holds)                                                                                \
    ((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds), abort()))

extern const struct cf_variant cf_full_lane_alltoallv;

/* ---- the MPI library ------------------------------------------------------------------------- */

enum { MOST_RANKS = 2048, MOST_GROUPS = 256, FIRST_COMM = 0x04000000, STACK = 256 * 1024 };

static struct rank {
    struct cf_comm comm;
    size_t kept[2];
    /* What it passed to the collective or the send that it is in. */
    const void *from;
    const int *counts, *displs;
    size_t bytes;
    int tag;
    struct rank *target; /* NULL: no message waits */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
} ranks[MOST_RANKS];

static struct group {
    int size;
    struct rank *members[MOST_RANKS];
    pthread_barrier_t barrier;
} groups[MOST_GROUPS]; /* of all ranks; of each node; of each lane */

static int size, nodes;
static _Thread_local struct rank *self;

static struct group *group_of(MPI_Comm comm) {
    return &groups[(int)comm - FIRST_COMM];
}

static MPI_Comm join(int group, int position, struct rank *rank) {
    groups[group].members[position] = rank;
    groups[group].size++;
    return (MPI_Comm)(FIRST_COMM + group);
}

int PMPI_Send(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    (void)pthread_mutex_lock(&self->mutex);
    self->from = from;
    self->bytes = (size_t)n * (size_t)cf_type_size(type);
    self->tag = tag;
    self->target = group_of(comm)->members[to];
    (void)pthread_cond_broadcast(&self->changed);
    while (self->target != NULL) {
        (void)pthread_cond_wait(&self->changed, &self->mutex);
    }
    (void)pthread_mutex_unlock(&self->mutex);
    return MPI_SUCCESS;
}

int PMPI_Recv(void *to, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Status *status) {
    struct rank *source = group_of(comm)->members[from];
    (void)status;
    (void)pthread_mutex_lock(&source->mutex);
    while (source->target != self || source->tag != tag) {
        (void)pthread_cond_wait(&source->changed, &source->mutex);
    }
    must(source->bytes == (size_t)n * (size_t)cf_type_size(type));
    memcpy(to, source->from, source->bytes);
    source->target = NULL;
    (void)pthread_cond_broadcast(&source->changed);
    (void)pthread_mutex_unlock(&source->mutex);
    return MPI_SUCCESS;
}

int PMPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    struct group *group = group_of(comm);
    uint64_t mine[4], result[4] = {0};
    must(in == MPI_IN_PLACE && n <= 4 && cf_type_size(type) == 8);
    must(op == MPI_SUM || (op == MPI_MAX && type == MPI_INT64_T));
    self->from = memcpy(mine, out, (size_t)n * sizeof *mine);
    (void)pthread_barrier_wait(&group->barrier);
    for (int q = 0; q < group->size; q++) {
        const uint64_t *theirs = group->members[q]->from;
        for (int i = 0; i < n; i++) {
            const bool larger = (int64_t)theirs[i] > (int64_t)result[i];
            result[i] = op == MPI_SUM ? result[i] + theirs[i] : larger ? theirs[i] : result[i];
        }
    }
    memcpy(out, result, (size_t)n * sizeof *result);
    (void)pthread_barrier_wait(&group->barrier);
    return MPI_SUCCESS;
}

int PMPI_Alltoallv(const void *from, const int *counts, const int *displs, MPI_Datatype type,
                   void *to, const int *expected, const int *begins, MPI_Datatype other,
                   MPI_Comm comm) {
    struct group *group = group_of(comm);
    const size_t unit = (size_t)cf_type_size(type);
    int me = 0;
    must(type == other);
    self->from = from;
    self->counts = counts;
    self->displs = displs;
    (void)pthread_barrier_wait(&group->barrier);
    while (group->members[me] != self) {
        me++;
    }
    for (int q = 0; q < group->size; q++) {
        const struct rank *source = group->members[q];
        must(source->counts[me] == expected[q]);
        memcpy((char *)to + (size_t)begins[q] * unit,
               (const char *)source->from + (size_t)source->displs[me] * unit,
               (size_t)expected[q] * unit);
    }
    (void)pthread_barrier_wait(&group->barrier);
    return MPI_SUCCESS;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Lays out the blocks of one side, of 0 to 4 bytes. */
static char *lay(bool is_target, int *counts, int *displs, bool filled) {
    const int me = self->comm.layout.rank;
    char *data = calloc((size_t)size, 4);
    must(data != NULL);
    for (int q = 0, all = 0; q < size; all += counts[q++]) {
        const int source = is_target ? q : me, target = is_target ? me : q;
        counts[q] = (source * 7 + target * 13) % 5;
        displs[q] = all;
        for (int i = 0; i < counts[q] && filled; i++) {
            data[all + i] = (char)(source * 31 + target * 17 + i);
        }
    }
    return data;
}

static int agree(struct cf_args *args) {
    args->comm = self->comm.handle;
    args->sendtype = args->recvtype = MPI_BYTE;
    return cf_exchange_sizes(&self->comm, CF_ALLTOALLV, args);
}

static void alltoallv(int lanes) {
    const int parameter[CF_MAX_PARAMETERS] = {lanes};
    int sends[MOST_RANKS], sdispls[MOST_RANKS], receives[MOST_RANKS], rdispls[MOST_RANKS];
    char *from = lay(false, sends, sdispls, true), *to = lay(true, receives, rdispls, false);
    char *right = lay(true, receives, rdispls, true);
    struct cf_args args = {.sendbuf = from, .sendcounts = sends, .sdispls = sdispls};
    args.recvbuf = to;
    args.recvcounts = receives;
    args.rdispls = rdispls;
    must(agree(&args) == MPI_SUCCESS);
    must(cf_full_lane_alltoallv.run(&args, &self->comm, parameter) == MPI_SUCCESS);
    must(memcmp(to, right, (size_t)size * 4) == 0);
    free(from);
    free(to);
    free(right);
}

/* What two ranks expect differs from what two others send, with the same sums by source, by target
 * and over all; or a count of one rank is illegal. */
enum fault { NONE, DIFFERENT, ILLEGAL };

/* Sizes only: the first n ranks send so many bytes to each other. */
static void exchange(int n, int bytes, enum fault fault, int wanted) {
    const int me = self->comm.layout.rank;
    const struct cf_exchanged *found = &self->comm.exchanged;
    const int64_t all = (int64_t)n * n * bytes, pairs = (int64_t)size * size;
    int sends[MOST_RANKS] = {0}, receives[MOST_RANKS] = {0};
    for (int q = 0; q < n && me < n; q++) {
        sends[q] = receives[q] = bytes;
    }
    if (fault == DIFFERENT && me < 2) {
        receives[2 + me]++;
        receives[3 - me]--;
    }
    if (fault == ILLEGAL && me == size - 1) {
        sends[1] = -1;
    }
    struct cf_args args = {.sendbuf = &sends, .sendcounts = sends, .sdispls = sends};
    args.recvbuf = &receives;
    args.recvcounts = args.rdispls = receives;
    must(agree(&args) == wanted);
    must(wanted != MPI_SUCCESS || (found->mean == (all + pairs - 1) / pairs &&
                                   found->total == (int64_t)n * bytes && !found->few));
}

static void *work(void *rank) {
    self = rank;
    for (int run = 0; run < 2; run++) {
        const size_t *kept = self->comm.tmpbufs.capacity;
        alltoallv(run == 0 ? 1 : 0);
        self->kept[run] =
            kept[CF_SLOT_UNITS] + kept[CF_SLOT_PAIRS] + kept[CF_SLOT_POSITIONS];
        cf_tmpbufs_free(&self->comm.tmpbufs);
    }
    exchange(size, 4, DIFFERENT, CF_DECLINED);
    exchange(size, 4, ILLEGAL, CF_DECLINED);
    exchange(size, 4096, NONE, MPI_SUCCESS);   /* more than 2^31 bytes, but not on a node */
    exchange(size, 100000, NONE, CF_DECLINED); /* on a node, too */
    exchange(2, 100000000, NONE, MPI_SUCCESS); /* not together, but by what a node may have */
    cf_tmpbufs_free(&self->comm.tmpbufs);
    return NULL;
}

static void place(int r, const int *node_of) {
    struct rank *rank = &ranks[r];
    struct cf_layout *at = &rank->comm.layout;
    must(cf_layout_from_nodes(at, size, r, node_of, size) && cf_layout_add_lanes(at));
    must(1 + nodes + at->min_node_size <= MOST_GROUPS);
    rank->comm.handle = join(0, r, rank);
    at->node_comm = join(1 + at->node, at->node_rank, rank);
    at->lane_comm = at->node_rank < at->min_node_size
                        ? join(1 + nodes + at->node_rank, at->node, rank)
                        : MPI_COMM_NULL;
    must(pthread_mutex_init(&rank->mutex, NULL) == 0);
    must(pthread_cond_init(&rank->changed, NULL) == 0);
}

int main(int argc, char **argv) {
    const MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_UINT64_T, MPI_INT64_T};
    const uintptr_t bytes[] = {1, 4, 8, 8};
    int node_of[MOST_RANKS];
    pthread_attr_t attributes;
    size = argc == 3 ? atoi(argv[1]) : 0;
    nodes = argc == 3 ? atoi(argv[2]) : 0;
    must(size > 3 && size <= MOST_RANKS && nodes > 1 && 2 * nodes <= size);
    /* Half of the ranks in order, but the first node has fewer; the others in turn. */
    for (int r = 0; r < size; r++) {
        node_of[r] = 2 * r < size ? (2 * r + nodes) * nodes / (size + nodes) : r * 5 % nodes;
    }
    for (int i = 0; i < 4; i++) {
        must(cf_handle_insert(&cf_types, (uintptr_t)types[i],
                              bytes[i] << CF_TYPE_SIZE_SHIFT | CF_TYPE_PREDEFINED | CF_TYPE_DENSE));
    }
    for (int r = 0; r < size; r++) {
        place(r, node_of);
    }
    for (int g = 0; g < MOST_GROUPS && groups[g].size > 0; g++) {
        must(pthread_barrier_init(&groups[g].barrier, NULL, (unsigned)groups[g].size) == 0);
    }
    must(pthread_attr_init(&attributes) == 0);
    must(pthread_attr_setstacksize(&attributes, STACK) == 0);
    for (int r = 0; r < size; r++) {
        must(pthread_create(&ranks[r].thread, &attributes, work, &ranks[r]) == 0);
    }
    for (int r = 0; r < size; r++) {
        must(pthread_join(ranks[r].thread, NULL) == 0);
    }
    for (int r = 0; r < size; r++) {
        printf("%d %zu %zu\n", ranks[r].comm.layout.node, ranks[r].kept[0], ranks[r].kept[1]);
    }
    puts("passed");
    return 0;
}
