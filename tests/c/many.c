/*
 * An alltoallv, a gatherv and a scatterv of many ranks, each a thread of this process, with the
 * variants as generated and an MPI library that only has what these call. The ranks lie unevenly on
 * the nodes, and not in order.
 *
 *   many RANKS NODES
 *
 * Prints the most ranks of a node; for each variant the most bytes of sizes that a rank keeps, and
 * that the ranks of a node keep together; and "passed".
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

/* ---- communicators --------------------------------------------------------------------------- */

enum { MOST_RANKS = 4096, FIRST_COMM = 0x04000000, STACK = 256 * 1024 };

struct message {
    int source, tag;
    MPI_Comm comm;
    size_t bytes;
    struct message *next;
    char data[];
};

/* The arguments of a collective, as a rank passed them. */
struct posted {
    const void *from;
    const int *counts, *displs;
    int count;
};

static struct group {
    int size;
    int *ranks;
    struct posted *posted; /* [size] */
    pthread_barrier_t barrier;
} *groups; /* of all ranks; of each node; of each lane */

static struct rank {
    int rank;
    struct cf_comm comm;
    struct message *messages;
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    pthread_t thread;
} ranks[MOST_RANKS];

static int size, nodes, ngroups = 1;
static _Thread_local struct rank *self;

static struct group *group_of(MPI_Comm comm) {
    return &groups[(int)comm - FIRST_COMM];
}

static void add_member(int group, int rank) {
    struct group *to = &groups[group];
    must((to->ranks = realloc(to->ranks, ((size_t)to->size + 1) * sizeof *to->ranks)) != NULL);
    to->ranks[to->size++] = rank;
}

int PMPI_Comm_rank(MPI_Comm comm, int *rank) {
    const struct group *group = group_of(comm);
    for (*rank = 0; group->ranks[*rank] != self->rank; ++*rank)
        must(*rank + 1 < group->size);
    return MPI_SUCCESS;
}

/* ---- messages and collectives ---------------------------------------------------------------- */

int PMPI_Send(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    const size_t bytes = (size_t)n * (size_t)cf_type_size(type);
    struct rank *target = &ranks[group_of(comm)->ranks[to]];
    struct message *message = malloc(sizeof *message + bytes);
    must(message != NULL);
    *message = (struct message){self->rank, tag, comm, bytes, NULL};
    memcpy(message->data, from, bytes);
    (void)pthread_mutex_lock(&target->mutex);
    struct message **last = &target->messages;
    while (*last != NULL)
        last = &(*last)->next;
    *last = message;
    (void)pthread_cond_signal(&target->arrived);
    (void)pthread_mutex_unlock(&target->mutex);
    return MPI_SUCCESS;
}

int PMPI_Recv(void *to, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Status *status) {
    const int source = group_of(comm)->ranks[from];
    struct message **at = &self->messages;
    (void)status;
    (void)pthread_mutex_lock(&self->mutex);
    while (*at == NULL || (*at)->source != source || (*at)->tag != tag || (*at)->comm != comm) {
        if (*at != NULL) {
            at = &(*at)->next;
            continue;
        }
        (void)pthread_cond_wait(&self->arrived, &self->mutex);
        at = &self->messages;
    }
    struct message *message = *at;
    *at = message->next;
    (void)pthread_mutex_unlock(&self->mutex);
    must(message->bytes == (size_t)n * (size_t)cf_type_size(type));
    memcpy(to, message->data, message->bytes);
    free(message);
    return MPI_SUCCESS;
}

static struct group *meet(MPI_Comm comm, struct posted mine, int *me) {
    struct group *group = group_of(comm);
    (void)PMPI_Comm_rank(comm, me);
    group->posted[*me] = mine;
    (void)pthread_barrier_wait(&group->barrier);
    return group;
}

static int leave(struct group *group) {
    (void)pthread_barrier_wait(&group->barrier);
    return MPI_SUCCESS;
}

int PMPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    uint64_t mine[4], sums[4] = {0};
    int me = 0;
    must(in == MPI_IN_PLACE && n <= 4 && cf_type_size(type) == 8);
    must(op == MPI_SUM || (op == MPI_MAX && type == MPI_INT64_T));
    memcpy(mine, out, (size_t)n * sizeof *mine);
    struct group *group = meet(comm, (struct posted){.from = mine}, &me);
    for (int q = 0; q < group->size; q++) {
        const uint64_t *theirs = group->posted[q].from;
        for (int i = 0; i < n; i++) {
            const bool larger = (int64_t)theirs[i] > (int64_t)sums[i];
            sums[i] = op == MPI_SUM ? sums[i] + theirs[i] : larger ? theirs[i] : sums[i];
        }
    }
    memcpy(out, sums, (size_t)n * sizeof *sums);
    return leave(group);
}

int PMPI_Allgather(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype other,
                   MPI_Comm comm) {
    const size_t bytes = (size_t)n * (size_t)cf_type_size(type);
    int me = 0;
    must(from != MPI_IN_PLACE && n == m && type == other);
    struct group *group = meet(comm, (struct posted){.from = from}, &me);
    for (int q = 0; q < group->size; q++)
        memcpy((char *)to + (size_t)q * bytes, group->posted[q].from, bytes);
    return leave(group);
}

int PMPI_Alltoallv(const void *from, const int *counts, const int *displs, MPI_Datatype type,
                   void *to, const int *expected, const int *begins, MPI_Datatype other,
                   MPI_Comm comm) {
    const size_t unit = (size_t)cf_type_size(type);
    int me = 0;
    must(type == other);
    struct group *group = meet(comm, (struct posted){from, counts, displs, 0}, &me);
    for (int q = 0; q < group->size; q++) {
        const struct posted *theirs = &group->posted[q];
        must(theirs->counts[me] == expected[q]);
        memcpy((char *)to + (size_t)begins[q] * unit,
               (const char *)theirs->from + (size_t)theirs->displs[me] * unit,
               (size_t)expected[q] * unit);
    }
    return leave(group);
}

int PMPI_Gatherv(const void *from, int n, MPI_Datatype type, void *to, const int *counts,
                 const int *displs, MPI_Datatype other, int root, MPI_Comm comm) {
    const size_t unit = (size_t)cf_type_size(type);
    int me = 0;
    must(type == other);
    struct group *group = meet(comm, (struct posted){.from = from, .count = n}, &me);
    for (int q = 0; q < group->size && me == root; q++) {
        must(group->posted[q].count == counts[q]);
        memcpy((char *)to + (size_t)displs[q] * unit, group->posted[q].from,
               (size_t)counts[q] * unit);
    }
    return leave(group);
}

int PMPI_Scatterv(const void *from, const int *counts, const int *displs, MPI_Datatype type,
                  void *to, int n, MPI_Datatype other, int root, MPI_Comm comm) {
    const size_t unit = (size_t)cf_type_size(type);
    int me = 0;
    must(type == other);
    struct group *group = meet(comm, (struct posted){from, counts, displs, 0}, &me);
    const struct posted *theirs = &group->posted[root];
    must(theirs->counts[me] == n);
    memcpy(to, (const char *)theirs->from + (size_t)theirs->displs[me] * unit, (size_t)n * unit);
    return leave(group);
}

static void lay_evenly(int counts[], int displs[], int n) {
    for (int q = 0; q < size; q++) {
        counts[q] = n;
        displs[q] = q * n;
    }
}

int PMPI_Gather(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype other,
                int root, MPI_Comm comm) {
    int counts[MOST_RANKS], displs[MOST_RANKS];
    lay_evenly(counts, displs, m);
    return PMPI_Gatherv(from, n, type, to, counts, displs, other, root, comm);
}

int PMPI_Scatter(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype other,
                 int root, MPI_Comm comm) {
    int counts[MOST_RANKS], displs[MOST_RANKS];
    lay_evenly(counts, displs, n);
    return PMPI_Scatterv(from, counts, displs, type, to, m, other, root, comm);
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum { BLOCK = 4 }; /* bytes, at most */

static int block_of(int source, int target) {
    return (source * 7 + target * 13) % (BLOCK + 1);
}

static char value_of(int source, int target, int i) {
    return (char)(source * 31 + target * 17 + i);
}

/* Lays out the blocks of one side; the other rank of each is the source if is_source. */
static char *lay(bool is_source, int *counts, int *displs, bool filled) {
    int all = 0;
    for (int q = 0; q < size; q++) {
        counts[q] = is_source ? block_of(q, self->rank) : block_of(self->rank, q);
        displs[q] = all;
        all += counts[q];
    }
    char *data = calloc((size_t)all + 1, 1);
    must(data != NULL);
    for (int q = 0; q < size && filled; q++) {
        for (int i = 0; i < counts[q]; i++) {
            data[displs[q] + i] =
                is_source ? value_of(q, self->rank, i) : value_of(self->rank, q, i);
        }
    }
    return data;
}

static const struct cf_variant *find(const char *family, int collective) {
    for (int v = 0; v < cf_nvariants; v++)
        if (cf_variants[v]->collective == collective && strcmp(cf_variants[v]->family, family) == 0)
            return cf_variants[v];
    abort();
}

enum { RUNS = 2 };
static const char *const families[RUNS] = {"full_lane", "hierarchical"};

static void agree(struct cf_args *args, int collective, int wanted) {
    args->comm = self->comm.handle;
    args->sendtype = args->recvtype = MPI_BYTE;
    must(cf_exchange_sizes(&self->comm, collective, args) == wanted);
}

static void run(struct cf_args *args, int collective, int wanted, const char *family) {
    static const int neutral[CF_MAX_PARAMETERS];
    agree(args, collective, wanted);
    if (wanted == MPI_SUCCESS)
        must(find(family, collective)->run(args, &self->comm, neutral) == MPI_SUCCESS);
}

/* fault: 1: what two ranks expect differs from what two others send, with the same sums by source,
 * by target and over all; 2: a count of one rank is illegal; 3: of each rank. */
static void alltoallv(const char *family, int fault) {
    int sends[MOST_RANKS], sdispls[MOST_RANKS], receives[MOST_RANKS], rdispls[MOST_RANKS];
    char *from = lay(false, sends, sdispls, true), *to = lay(true, receives, rdispls, false);
    char *right = lay(true, receives, rdispls, true);
    if (fault == 1 && self->rank < 2) {
        receives[2 + self->rank]++;
        receives[3 - self->rank]--;
    }
    if (fault == 3 || (fault == 2 && self->rank == size - 1))
        sends[1] = -1;
    struct cf_args args = {.sendbuf = from, .sendcounts = sends, .sdispls = sdispls, .recvbuf = to,
        .recvcounts = receives, .rdispls = rdispls};
    run(&args, CF_ALLTOALLV, fault == 0 ? MPI_SUCCESS : CF_DECLINED, family);
    must(fault != 0 || memcmp(to, right, (size_t)(rdispls[size - 1] + receives[size - 1])) == 0);
    free(from);
    free(to);
    free(right);
}

/* Sizes only: the first n ranks send so many bytes to each other. */
static void exchange(int n, int bytes, int wanted) {
    int counts[MOST_RANKS], displs[MOST_RANKS] = {0};
    char nothing = 0;
    for (int q = 0; q < size; q++)
        counts[q] = self->rank < n && q < n ? bytes : 0;
    struct cf_args args = {.sendbuf = &nothing, .sendcounts = counts, .sdispls = displs, .recvbuf =
        &nothing, .recvcounts = counts, .rdispls = displs};
    agree(&args, CF_ALLTOALLV, wanted);
    const struct cf_exchanged *found = &self->comm.exchanged;
    const int64_t all = (int64_t)n * n * bytes, pairs = (int64_t)size * size;
    must(wanted != MPI_SUCCESS || (found->mean == (all + pairs - 1) / pairs &&
                                   found->total == (int64_t)n * bytes && !found->few));
}

static void rooted(const char *family, int root) {
    int counts[MOST_RANKS], displs[MOST_RANKS];
    const bool is_root = self->rank == root;
    const int own = block_of(self->rank, self->rank);
    char *all = lay(true, counts, displs, false), one[BLOCK] = {0};
    int filled = 0;
    for (int q = 0; q < size; q++, filled += counts[q - 1]) {
        counts[q] = block_of(q, q);
        displs[q] = filled;
    }
    must((all = realloc(all, (size_t)filled + 1)) != NULL);
    for (int i = 0; i < own; i++)
        one[i] = value_of(self->rank, root, i);
    memset(all, 0, (size_t)filled);
    struct cf_args gather = {.sendbuf = one, .sendcount = own, .recvbuf = all, .recvcounts =
        counts, .rdispls = displs, .root = root};
    run(&gather, CF_GATHERV, MPI_SUCCESS, family);
    for (int q = 0; q < size && is_root; q++)
        for (int i = 0; i < counts[q]; i++)
            must(all[displs[q] + i] == value_of(q, root, i));
    memset(one, 0, sizeof one);
    struct cf_args scatter = {.sendbuf = all, .sendcounts = counts, .sdispls = displs, .recvbuf =
        one, .recvcount = own, .root = root};
    run(&scatter, CF_SCATTERV, MPI_SUCCESS, family);
    for (int i = 0; i < own; i++)
        must(one[i] == value_of(self->rank, root, i));
    free(all);
}

static size_t sizes_kept[RUNS][MOST_RANKS];

static void *work(void *rank) {
    self = rank;
    for (int r = 0; r < RUNS; r++) {
        const size_t *kept = self->comm.tmpbufs.capacity;
        alltoallv(families[r], 0);
        sizes_kept[r][self->rank] = kept[CF_SLOT_UNITS] + kept[CF_SLOT_PAIRS];
        cf_tmpbufs_free(&self->comm.tmpbufs);
        rooted(families[r], size / 3);
        cf_tmpbufs_free(&self->comm.tmpbufs);
    }
    alltoallv("full_lane", 1);
    alltoallv("full_lane", 2);
    alltoallv("full_lane", 3);
    exchange(size, 4096, MPI_SUCCESS);   /* more than 2^31 bytes, but not on a node */
    exchange(size, 100000, CF_DECLINED); /* on a node, too */
    exchange(2, 100000000, MPI_SUCCESS); /* not together, but by what a node may have */
    cf_tmpbufs_free(&self->comm.tmpbufs);
    return NULL;
}

/* ---- begin ----------------------------------------------------------------------------------- */

static void make_groups(int *node_of) {
    struct cf_layout *first = &ranks[0].comm.layout;
    for (int r = 0; r < size; r++) {
        struct cf_layout *layout = &ranks[r].comm.layout;
        ranks[r].rank = r;
        must(cf_layout_from_nodes(layout, size, r, node_of, size) && cf_layout_add_lanes(layout));
    }
    ngroups = 1 + nodes + first->min_node_size;
    must((groups = calloc((size_t)ngroups, sizeof *groups)) != NULL);
    for (int r = 0; r < size; r++) {
        struct cf_layout *layout = &ranks[r].comm.layout;
        const int node = 1 + layout->node, lane = 1 + nodes + layout->node_rank;
        const bool carries = layout->node_rank < layout->min_node_size;
        add_member(0, r);
        add_member(node, r);
        ranks[r].comm.handle = (MPI_Comm)FIRST_COMM;
        layout->node_comm = (MPI_Comm)(FIRST_COMM + node);
        layout->lane_comm = carries ? (MPI_Comm)(FIRST_COMM + lane) : MPI_COMM_NULL;
        must(pthread_mutex_init(&ranks[r].mutex, NULL) == 0);
        must(pthread_cond_init(&ranks[r].arrived, NULL) == 0);
    }
    for (int lane = 0; lane < first->min_node_size; lane++) {
        for (int node = 0; node < nodes; node++) {
            for (int r = 0; r < size; r++)
                if (first->node_of[r] == node && first->node_rank_of[r] == lane)
                    add_member(1 + nodes + lane, r);
        }
    }
    for (int g = 0; g < ngroups; g++) {
        must((groups[g].posted = calloc((size_t)groups[g].size, sizeof(struct posted))) != NULL);
        must(pthread_barrier_init(&groups[g].barrier, NULL, (unsigned)groups[g].size) == 0);
    }
}

static void report(int run) {
    size_t most = 0, most_on_node = 0;
    for (int node = 0; node < nodes; node++) {
        size_t on_node = 0;
        for (int i = 0; i < groups[1 + node].size; i++) {
            const size_t kept = sizes_kept[run][groups[1 + node].ranks[i]];
            on_node += kept;
            most = kept > most ? kept : most;
        }
        most_on_node = on_node > most_on_node ? on_node : most_on_node;
    }
    printf("%s %zu %zu\n", families[run], most, most_on_node);
}

int main(int argc, char **argv) {
    const MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_UINT64_T, MPI_INT64_T};
    static int node_of[MOST_RANKS];
    pthread_attr_t attributes;
    size = argc == 3 ? atoi(argv[1]) : 0;
    nodes = argc == 3 ? atoi(argv[2]) : 0;
    must(size > 2 && size <= MOST_RANKS && nodes > 1 && 2 * nodes <= size);
    /* Half of the ranks in order, but the first node has fewer; the others in turn. */
    for (int r = 0; r < size; r++)
        node_of[r] = 2 * r < size ? (2 * r + nodes) * nodes / (size + nodes) : r * 5 % nodes;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const uintptr_t bytes = i == 0 ? 1 : i == 1 ? 4 : 8;
        const uintptr_t entry = bytes << CF_TYPE_SIZE_SHIFT | CF_TYPE_PREDEFINED | CF_TYPE_DENSE;
        must(cf_handle_insert(&cf_types, (uintptr_t)types[i], entry));
    }
    make_groups(node_of);
    must(pthread_attr_init(&attributes) == 0);
    must(pthread_attr_setstacksize(&attributes, STACK) == 0);
    for (int r = 0; r < size; r++)
        must(pthread_create(&ranks[r].thread, &attributes, work, &ranks[r]) == 0);
    for (int r = 0; r < size; r++)
        must(pthread_join(ranks[r].thread, NULL) == 0);
    printf("node %d\n", ranks[0].comm.layout.max_node_size);
    for (int run = 0; run < RUNS; run++)
        report(run);
    puts("passed");
    return 0;
}
