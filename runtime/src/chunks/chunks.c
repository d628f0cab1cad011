/* The communicators of the chunks. */
#include "chunks/chunks.h"

#include <stdlib.h>

#include "base/runtime.h"
#include "place/connect.h"
#include "place/topology.h"

/* ---- orders of the nodes --------------------------------------------------------------------- */

static int greatest_common_divisor(int a, int b) {
    while (b != 0) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The chunk-th number coprime to the number of nodes, cyclically. */
static int stride_of(int chunk, int nodes) {
    int stride = 1;

    for (int met = 0; nodes > 2; stride = stride % nodes + 1) {
        if (greatest_common_divisor(stride, nodes) == 1 && met++ == chunk) {
            break;
        }
    }
    return stride;
}

/* Not rand(), so that all ranks get the same order with any C library. */
static void shuffle(int *nodes, int n, unsigned seed) {
    for (int i = n - 1; i > 0; i--) {
        seed = seed * 1664525U + 1013904223U;
        const int other = (int)((seed >> 8) % (unsigned)(i + 1));
        const int moved = nodes[i];
        nodes[i] = nodes[other];
        nodes[other] = moved;
    }
}

/* nodes: [N] the nodes in the order of this chunk. */
static void order_nodes(int *nodes, int N, const struct cf_chunks *chunks, int chunk) {
    const int spread = (int)((long)chunk * N / chunks->n % N);
    const int first = chunks->order == CF_NODE_ORDER_ROTATED ? chunk % N : spread;
    int stride = 1;

    if (chunks->order == CF_NODE_ORDER_REVERSED && chunk % 2 == 1) {
        stride = N - 1;
    } else if (chunks->order == CF_NODE_ORDER_STRIDED) {
        stride = stride_of(chunk, N);
    }
    for (int i = 0; i < N; i++) {
        nodes[i] = (int)((first + (long)i * stride) % N);
    }
    if (chunks->order == CF_NODE_ORDER_SHUFFLED && chunk > 0) {
        shuffle(nodes, N, (unsigned)chunk);
    }
}

/* Sets rank_at and place_of. */
static bool place_ranks(struct cf_chunk *made, const struct cf_layout *at,
                        const struct cf_chunks *chunks, int chunk) {
    int *nodes = malloc((size_t)at->nodes * sizeof *nodes);
    int *begin = malloc((size_t)at->nodes * sizeof *begin);
    int next = 0;

    if (nodes == NULL || begin == NULL) {
        free(nodes);
        free(begin);
        return false;
    }
    order_nodes(nodes, at->nodes, chunks, chunk);
    for (int i = 0; i < at->nodes; i++) {
        begin[nodes[i]] = next;
        next += at->node_size[nodes[i]];
    }
    const bool by_rank =
        chunks->order == CF_NODE_ORDER_KEPT || chunks->order == CF_NODE_ORDER_RANKS || chunk == 0;
    const int first =
        chunks->order == CF_NODE_ORDER_RANKS ? (int)((long)chunk * at->size / chunks->n) : 0;
    for (int rank = 0; rank < at->size; rank++) {
        const int place = by_rank ? (rank - first + at->size) % at->size
                                  : begin[at->node_of[rank]] + at->node_rank_of[rank];
        made->place_of[rank] = place;
        made->rank_at[place] = rank;
    }
    free(nodes);
    free(begin);
    return true;
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void free_set(struct cf_chunk_set *set) {
    for (int c = 0; set != NULL && c < set->n; c++) {
        cf_hidden_free(&set->chunk[c].comm);
        free(set->chunk[c].rank_at);
    }
    free(set == NULL ? NULL : set->requests);
    free(set);
}

/* Without communicators; NULL when out of memory. */
static struct cf_chunk_set *new_set(const struct cf_layout *at, const struct cf_chunks *chunks) {
    const size_t size = (size_t)at->size;
    struct cf_chunk_set *set = calloc(1, sizeof *set + (size_t)chunks->n * sizeof set->chunk[0]);
    bool good = set != NULL;

    if (good) {
        set->requests = malloc((size_t)chunks->n * sizeof(MPI_Request));
        good = set->requests != NULL;
    }
    for (int c = 0; good && c < chunks->n; c++) {
        struct cf_chunk *chunk = &set->chunk[c];
        chunk->comm = MPI_COMM_NULL;
        set->n = c + 1;
        const bool lined = chunks->order == CF_NODE_ORDER_KEPT; /* as an exchange has it */
        chunk->rank_at = malloc((lined ? 6 : 4) * size * sizeof *chunk->rank_at);
        good = chunk->rank_at != NULL;
        if (good) {
            chunk->place_of = chunk->rank_at + size;
            chunk->counts = chunk->place_of + size;
            chunk->displs = chunk->counts + size;
            chunk->lined_counts = lined ? chunk->displs + size : NULL;
            chunk->lined_displs = lined ? chunk->lined_counts + size : NULL;
            good = place_ranks(chunk, at, chunks, c);
        }
    }
    if (!good) {
        free_set(set);
        return NULL;
    }
    set->order = chunks->order;
    return set;
}

/* Collectives never receive from any source or with any tag. Told so, an MPI library may match the
 * messages of threads in parallel (Zambre et al., 2020, section 7). */
static bool hint(MPI_Comm comm) {
    MPI_Info info = MPI_INFO_NULL;
    bool good = PMPI_Info_create(&info) == MPI_SUCCESS;

    good = good && PMPI_Info_set(info, "mpi_assert_no_any_tag", "true") == MPI_SUCCESS &&
           PMPI_Info_set(info, "mpi_assert_no_any_source", "true") == MPI_SUCCESS &&
           PMPI_Comm_set_info(comm, info) == MPI_SUCCESS;
    if (info != MPI_INFO_NULL) {
        (void)PMPI_Info_free(&info);
    }
    return good;
}

/* Creates a set and adds it to the list. Collective; the result is equal on all ranks. */
static bool connect(struct cf_comm *comm, const void *wanted) {
    const struct cf_chunks *chunks = wanted;
    const int me = comm->layout.rank;
    struct cf_chunk_set *set = new_set(&comm->layout, chunks);

    if (!cf_comm_agree(comm->handle, set != NULL)) {
        free_set(set);
        return false;
    }
    bool good = true;
    for (int c = 0; c < set->n; c++) {
        struct cf_chunk *chunk = &set->chunk[c];
        good &= cf_hidden_split(comm->handle, 0, chunk->place_of[me], &chunk->comm) &&
                hint(chunk->comm);
    }
    if (!cf_comm_agree(comm->handle, good)) {
        free_set(set);
        return false;
    }
    set->next = comm->chunks;
    comm->chunks = set;
    return true;
}

struct cf_chunk_set *cf_chunks_find(const struct cf_comm *comm, const struct cf_chunks *chunks) {
    struct cf_chunk_set *set = comm->chunks;

    while (set != NULL && (set->n != chunks->n || set->order != chunks->order)) {
        set = set->next;
    }
    return set;
}

void cf_chunks_disconnect(struct cf_comm *comm) {
    while (comm->chunks != NULL) {
        struct cf_chunk_set *set = comm->chunks;
        comm->chunks = set->next;
        free_set(set);
    }
}

int cf_chunks_ready(struct cf_comm *comm, const struct cf_chunks *chunks, bool *ready) {
    const bool there = cf_chunks_find(comm, chunks) != NULL;
    if ((int64_t)chunks->n * comm->layout.size > CF_MOST_PLACES) {
        *ready = false;
        return MPI_SUCCESS;
    }
    const int err = cf_prepare_once(comm, chunks->n, connect, chunks, there, &comm->chunks_refused);
    *ready = there || cf_chunks_find(comm, chunks) != NULL;
    return err;
}
