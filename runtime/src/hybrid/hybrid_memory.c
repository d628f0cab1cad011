/* The shared memory of hybrid packages (collforge_hybrid.h). */
#include "hybrid/hybrid.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/runtime.h"
#include "node/shared_memory.h"
#include "node/shared_window.h"

/* Printed by the leader of a node with too little shared memory. */
static void complain(const struct cf_hybrid *hybrid, size_t bytes, size_t room) {
    (void)fprintf(stderr,
                  "collforge: collforge_hybrid_alloc: %zu bytes of shared memory are asked for on "
                  "node %d, which has %zu\n",
                  bytes, hybrid->open.node, room);
}

/*
 * Asks for more than is needed. Open MPI wants a twentieth more to be free; if it is not, the
 * leader gets an error, and the other ranks of the node wait for ever. The leaders of the NUMA
 * domains of a node allocate at the same time.
 */
static bool has_room(const struct cf_hybrid *hybrid, size_t bytes) {
    enum { ALIGNED = 1 << 16 };
    const size_t room = cf_shared_memory_room() / (size_t)hybrid->leaders;

    if (hybrid->open.node_rank != 0 || (room > ALIGNED && bytes <= (room - ALIGNED) / 17 * 16)) {
        return true;
    }
    complain(hybrid, bytes, room);
    return false;
}

static struct cf_piece *new_piece(void) {
    struct cf_piece *piece = calloc(1, sizeof *piece);

    if (piece != NULL) {
        piece->window = MPI_WIN_NULL;
    }
    return piece;
}

/* The leader contributes all memory. CF_SHARED_LINE bytes more, because MPI windows need not be
 * aligned. */
static bool allocate(const struct cf_hybrid *hybrid, struct cf_piece *piece, size_t bytes) {
    const size_t own = hybrid->open.node_rank == 0 ? bytes + CF_SHARED_LINE : 0;
    void *memory = NULL;

    return PMPI_Win_allocate_shared((MPI_Aint)own, 1, MPI_INFO_NULL, hybrid->open.node_comm,
                                    &memory, &piece->window) == MPI_SUCCESS;
}

/* Each rank populates its share of the pages, on its own NUMA node. Mappings begin at a page, so
 * the first aligned byte has the same offset on all ranks. */
static bool attach(const struct cf_hybrid *hybrid, struct cf_piece *piece, size_t bytes) {
    const size_t n = (size_t)hybrid->open.node_size;
    const size_t me = (size_t)hybrid->open.node_rank;
    const size_t share = bytes / n + (bytes % n != 0);
    const size_t begin = share * me < bytes ? share * me : bytes;
    const size_t own = bytes - begin < share ? bytes - begin : share;
    MPI_Aint length = 0;
    int unit = 0;
    void *base = NULL;

    if (PMPI_Win_shared_query(piece->window, 0, &length, &unit, &base) != MPI_SUCCESS) {
        return false;
    }
    const uintptr_t line = ((uintptr_t)base + CF_SHARED_LINE - 1) / CF_SHARED_LINE;
    piece->address = (void *)(line * CF_SHARED_LINE);
    piece->bytes = bytes;
    return own == 0 || cf_shared_memory_populate((char *)piece->address + begin, own);
}

static bool lock(struct cf_piece *piece) {
    piece->locked = cf_shared_memory_is_unified(piece->window) &&
                    PMPI_Win_lock_all(MPI_MODE_NOCHECK, piece->window) == MPI_SUCCESS;
    return piece->locked;
}

static int free_piece(struct cf_piece *piece) {
    const int unlocked = piece->locked ? PMPI_Win_unlock_all(piece->window) : MPI_SUCCESS;
    const int err = PMPI_Win_free(&piece->window);

    free(piece);
    return unlocked == MPI_SUCCESS ? err : unlocked;
}

/*
 * Succeeds on all ranks of the communicator or on none. If some rank of a node failed to allocate,
 * the others leak their windows, because MPI_Win_free is collective.
 */
static int open_piece(struct cf_hybrid *hybrid, struct cf_piece *piece, size_t bytes) {
    struct cf_comm *comm = &hybrid->state->comm;
    const bool allocated = cf_comm_agree(hybrid->open.node_comm, allocate(hybrid, piece, bytes));
    const bool good = cf_comm_agree(hybrid->open.node_comm,
                                    allocated && lock(piece) && attach(hybrid, piece, bytes));

    if (cf_comm_agree(hybrid->open.comm, good)) {
        piece->next = comm->pieces;
        comm->pieces = piece;
        return MPI_SUCCESS;
    }
    if (!good && hybrid->open.node_rank == 0) {
        complain(hybrid, bytes, cf_shared_memory_room());
    }
    if (allocated) {
        (void)free_piece(piece);
    } else {
        free(piece);
    }
    return MPI_ERR_NO_MEM;
}

/* Whether bytes is legal, and equal on all ranks. */
static int check_size(const struct cf_hybrid *hybrid, MPI_Aint bytes) {
    const int64_t legal = bytes < 0 ? -1 : bytes;
    const int64_t mine[2] = {legal, -legal};
    int64_t least[2] = {0, 0};

    CF_TRY(PMPI_Allreduce(mine, least, 2, MPI_INT64_T, MPI_MIN, hybrid->open.comm));
    return least[0] < 0 || least[0] != -least[1] ? MPI_ERR_SIZE : MPI_SUCCESS;
}

static int add_piece(struct cf_hybrid *hybrid, MPI_Aint bytes) {
    CF_TRY(check_size(hybrid, bytes));
    struct cf_piece *piece = new_piece();
    const bool common = cf_shared_memory_is_common(hybrid->open.node_comm);
    const bool may = has_room(hybrid, (size_t)bytes) && common && piece != NULL &&
                     cf_shared_memory_can_map((size_t)bytes);
    if (!cf_comm_agree(hybrid->open.comm, may)) {
        free(piece);
        return MPI_ERR_NO_MEM;
    }
    return open_piece(hybrid, piece, (size_t)bytes);
}

int collforge_hybrid_alloc(struct collforge_hybrid *hybrid, MPI_Aint bytes, void *address) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);

    *(void **)address = NULL;
    CF_TRY(found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM) : MPI_SUCCESS);
    const int err = add_piece(found, bytes);
    if (err == MPI_SUCCESS) {
        *(void **)address = found->state->comm.pieces->address;
    }
    return cf_hybrid_fail(hybrid->comm, err);
}

int collforge_hybrid_release(struct collforge_hybrid *hybrid, void *address) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);

    CF_TRY(found == NULL ? cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM) : MPI_SUCCESS);
    for (struct cf_piece **place = &found->state->comm.pieces; *place != NULL;
         place = &(*place)->next) {
        struct cf_piece *piece = *place;
        if (piece->address == address) {
            *place = piece->next;
            return cf_hybrid_fail(hybrid->comm, free_piece(piece));
        }
    }
    return cf_hybrid_fail(hybrid->comm, MPI_ERR_BASE);
}

bool cf_piece_has(const struct cf_hybrid *hybrid, const void *buffer, size_t bytes) {
    return cf_piece_find(&hybrid->state->comm, buffer, bytes) != 0;
}

int cf_pieces_free(struct cf_hybrid *hybrid) {
    int err = MPI_SUCCESS;

    struct cf_piece **first = &hybrid->state->comm.pieces;
    while (*first != NULL) {
        struct cf_piece *piece = *first;
        *first = piece->next;
        cf_note(&err, free_piece(piece));
    }
    return err;
}
