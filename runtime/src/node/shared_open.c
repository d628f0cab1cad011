/*
 * Creates, keeps and frees the shared-memory window of a communicator's node.
 *
 * MPI_Win_free waits for all ranks of the node, but freeing a communicator must not wait. MPI
 * libraries let ranks free communicators in different orders. MPICH calls the delete callback only
 * after the last request on the communicator, maybe inside MPI_Wait. The window of a freed
 * communicator is therefore kept until MPI_Finalize. The next communicator with the same ranks of
 * the node in the same order reuses it. In MPI_Finalize all ranks free their windows in the order
 * of the windows' numbers.
 */
#include "node/shared_window.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/runtime.h"
#include "node/shared_memory.h"
#include "place/connect.h"
#include "place/topology.h"

/* Limits per process, kept windows included. A window takes memory of the node, and descriptors and
 * mappings of the process. */
enum { MOST_WINDOWS = 128 };
static const size_t most_bytes = (size_t)512 << 20;

/* Windows without a communicator. */
static struct {
    pthread_mutex_t mutex;
    struct cf_shared *first;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static atomic_int nwindows;
static _Atomic size_t window_bytes;

size_t cf_shared_bytes(void) {
    return sizeof(struct cf_shared_segment) + CF_SHARED_LINE;
}

static void count_window(const struct cf_shared *shared, int more) {
    const size_t bytes = (size_t)shared->n * cf_shared_bytes();

    (void)atomic_fetch_add(&nwindows, more);
    cf_hidden_count(more);
    if (more > 0) {
        (void)atomic_fetch_add(&window_bytes, bytes);
    } else {
        (void)atomic_fetch_sub(&window_bytes, bytes);
    }
}

/* ---- local ----------------------------------------------------------------------------------- */

static void destroy(struct cf_shared *shared) {
    if (shared == NULL) {
        return;
    }
    if (shared->info != MPI_INFO_NULL) {
        (void)PMPI_Info_free(&shared->info);
    }
    free(shared->members);
    free(shared->segments);
    free(shared->flows);
    free(shared->parts);
    free(shared);
}

/* The ranks of the node in MPI_COMM_WORLD; MPI_ERR_RANK if one is not in it. */
static int find_members(const struct cf_shared *shared, int *members) {
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group node = MPI_GROUP_NULL;
    int *ranks = malloc((size_t)shared->n * sizeof *ranks);
    int err = ranks == NULL ? MPI_ERR_NO_MEM : PMPI_Comm_group(MPI_COMM_WORLD, &world);

    for (int rank = 0; rank < shared->n && ranks != NULL; rank++) {
        ranks[rank] = rank;
    }
    if (err == MPI_SUCCESS) {
        err = PMPI_Comm_group(shared->node_comm, &node);
    }
    if (err == MPI_SUCCESS) {
        err = PMPI_Group_translate_ranks(node, shared->n, ranks, world, members);
    }
    for (int rank = 0; rank < shared->n && err == MPI_SUCCESS; rank++) {
        err = members[rank] == MPI_UNDEFINED ? MPI_ERR_RANK : MPI_SUCCESS;
    }
    if (node != MPI_GROUP_NULL) {
        (void)PMPI_Group_free(&node);
    }
    if (world != MPI_GROUP_NULL) {
        (void)PMPI_Group_free(&world);
    }
    free(ranks);
    return err;
}

/* Everything but the MPI window; NULL if a resource is exhausted. */
static struct cf_shared *create(const struct cf_layout *at) {
    struct cf_shared *shared = calloc(1, sizeof *shared);

    if (shared == NULL) {
        return NULL;
    }
    shared->window = MPI_WIN_NULL;
    shared->info = MPI_INFO_NULL;
    shared->node_comm = at->node_comm;
    shared->n = at->node_size[at->node];
    shared->me = at->node_rank;
    shared->members = calloc((size_t)shared->n, sizeof *shared->members);
    shared->segments = calloc((size_t)shared->n, sizeof *shared->segments);
    shared->flows = calloc((size_t)shared->n, sizeof *shared->flows);
    shared->parts = calloc((size_t)shared->n, sizeof *shared->parts);
    if (shared->members != NULL && shared->segments != NULL && shared->flows != NULL &&
        shared->parts != NULL && (size_t)shared->n < CF_SHARED_PIECE / sizeof(uint64_t) &&
        find_members(shared, shared->members) == MPI_SUCCESS &&
        PMPI_Info_create(&shared->info) == MPI_SUCCESS &&
        PMPI_Info_set(shared->info, "alloc_shared_noncontig", "true") == MPI_SUCCESS) {
        return shared;
    }
    destroy(shared);
    return NULL;
}

/* Every process of the node may open a window now, for another communicator. Asks for twice the
 * memory of them all: the MPI library may hang where it is not there. */
static bool has_room(int n) {
    const size_t bytes = (size_t)n * cf_shared_bytes();
    const size_t all = (size_t)cf_topology_neighbours() * cf_shared_bytes();

    return nwindows < MOST_WINDOWS && cf_hidden_may(1) &&
           atomic_load(&window_bytes) + bytes <= most_bytes &&
           cf_shared_memory_room() / 2 > (all > bytes ? all : bytes) &&
           cf_shared_memory_can_map(bytes);
}

/* Finds all ranks' segments. A segment begins at the first multiple of CF_SHARED_LINE. Mappings
 * begin at a page, so this is the same offset in the mapping of every process. */
static bool attach(struct cf_shared *shared, void *memory) {
    if (!cf_shared_memory_is_unified(shared->window) ||
        !cf_shared_memory_populate(memory, cf_shared_bytes())) {
        return false;
    }
    for (int rank = 0; rank < shared->n; rank++) {
        MPI_Aint bytes = 0;
        int unit = 0;
        void *base = NULL;
        if (PMPI_Win_shared_query(shared->window, rank, &bytes, &unit, &base) != MPI_SUCCESS) {
            return false;
        }
        const uintptr_t line = ((uintptr_t)base + CF_SHARED_LINE - 1) / CF_SHARED_LINE;
        shared->segments[rank] = (struct cf_shared_segment *)(line * CF_SHARED_LINE);
    }
    return true;
}

/* The next round is 0, once all ranks have called this. */
static bool rewind_rounds(struct cf_shared *shared) {
    struct cf_shared_segment *own = shared->segments[shared->me];

    shared->rounds = 0;
    shared->all_done = 0;
    atomic_init(&own->done, 0);
    atomic_init(&own->combined, 0);
    for (int slot = 0; slot < CF_SHARED_SLOTS; slot++) {
        atomic_init(&own->slots[slot].filled, 0);
    }
    return PMPI_Win_sync(shared->window) == MPI_SUCCESS;
}

/* ---- kept windows ---------------------------------------------------------------------------- */

static void keep(struct cf_shared *shared) {
    (void)pthread_mutex_lock(&kept.mutex);
    shared->next = kept.first;
    kept.first = shared;
    (void)pthread_mutex_unlock(&kept.mutex);
}

static bool has_members(const struct cf_shared *shared, const struct cf_shared *other) {
    return shared->n == other->n && memcmp(shared->members, other->members,
                                           (size_t)other->n * sizeof other->members[0]) == 0;
}

static bool has_number(const struct cf_shared *shared, const struct cf_shared *other) {
    return memcmp(shared->number, other->number, sizeof other->number) == 0;
}

/* Takes the first window for which is_like holds out of the list of kept windows; NULL if none. No
 * MPI call may be made here: a thread inside MPI_Comm_free may wait for the lock. */
static struct cf_shared *take(bool (*is_like)(const struct cf_shared *, const struct cf_shared *),
                              const struct cf_shared *other) {
    (void)pthread_mutex_lock(&kept.mutex);
    struct cf_shared **place = &kept.first;
    while (*place != NULL && !is_like(*place, other)) {
        place = &(*place)->next;
    }
    struct cf_shared *found = *place;
    if (found != NULL) {
        *place = found->next;
    }
    (void)pthread_mutex_unlock(&kept.mutex);
    return found;
}

/*
 * Replaces the window that create made by a kept one, if all ranks of the node have it in their
 * lists. Node rank 0 chooses. Otherwise the new window gets a unique number: node rank 0's rank in
 * MPI_COMM_WORLD, and how many windows that rank has numbered before.
 */
static bool find_kept(struct cf_shared **shared) {
    static _Atomic uint64_t numbered;
    struct cf_shared *made = *shared;
    struct cf_shared *found = made->me == 0 ? take(has_members, made) : NULL;
    uint64_t numbers[2][2] = {{(uint64_t)made->members[0], atomic_fetch_add(&numbered, 1)},
                              {UINT64_MAX, UINT64_MAX}};

    if (found != NULL) {
        memcpy(numbers[1], found->number, sizeof found->number);
    }
    const int err = PMPI_Bcast(numbers, 4, MPI_UINT64_T, 0, made->node_comm);
    memcpy(made->number, numbers[1], sizeof made->number);
    if (made->me != 0 && err == MPI_SUCCESS) {
        found = take(has_number, made);
    }
    memcpy(made->number, numbers[0], sizeof made->number);
    if (!cf_comm_agree(made->node_comm, found != NULL)) {
        if (found != NULL) {
            keep(found);
        }
        return false;
    }
    found->node_comm = made->node_comm;
    destroy(made);
    *shared = found;
    return true;
}

/* ---- creating and freeing windows ------------------------------------------------------------ */

/* Each rank's memory begins at a page of its own, so that it can lie on that rank's NUMA node. */
static bool allocate(struct cf_shared *shared, void **memory) {
    return PMPI_Win_allocate_shared((MPI_Aint)cf_shared_bytes(), 1, shared->info, shared->node_comm,
                                    memory, &shared->window) == MPI_SUCCESS;
}

/* Collective over the node. If some rank failed to allocate, the others leak their windows, because
 * MPI_Win_free is collective. */
static bool open_window(struct cf_shared *shared) {
    void *memory = NULL;

    if (!cf_comm_agree(shared->node_comm, allocate(shared, &memory))) {
        shared->window = MPI_WIN_NULL;
        return false;
    }
    count_window(shared, 1);
    const bool attached = attach(shared, memory);
    return PMPI_Win_lock_all(MPI_MODE_NOCHECK, shared->window) == MPI_SUCCESS && attached;
}

static void close_window(struct cf_shared *shared) {
    if (shared->window != MPI_WIN_NULL) {
        (void)PMPI_Win_unlock_all(shared->window);
        (void)PMPI_Win_free(&shared->window);
        count_window(shared, -1);
    }
    destroy(shared);
}

/* ---- interface ------------------------------------------------------------------------------- */

bool cf_shared_open(struct cf_comm *comm) {
    struct cf_shared *shared = create(&comm->layout);

    if (!cf_comm_agree(comm->handle, shared != NULL)) {
        destroy(shared);
        return false;
    }
    const bool alone = shared->n == 1;
    const bool again = !alone && find_kept(&shared);
    const bool may =
        alone || again || (cf_shared_memory_is_common(shared->node_comm) && has_room(shared->n));
    bool good = cf_comm_agree(comm->handle, may);
    if (good) {
        good = alone || ((again || open_window(shared)) && rewind_rounds(shared));
        good = cf_comm_agree(comm->handle, good);
    }
    if (!good && again) {
        keep(shared);
    } else if (!good) {
        close_window(shared);
    } else {
        if (!alone) {
            (void)PMPI_Win_sync(shared->window);
        }
        comm->shared = shared;
    }
    return good;
}

void cf_shared_close(struct cf_comm *comm) {
    struct cf_shared *shared = comm->shared;

    comm->shared = NULL;
    if (shared != NULL && shared->n > 1) {
        keep(shared);
    } else {
        destroy(shared);
    }
}

static bool is_first(const struct cf_shared *shared, const struct cf_shared *unused) {
    (void)unused;
    for (const struct cf_shared *other = kept.first; other != NULL; other = other->next) {
        if (other->number[0] < shared->number[0] ||
            (other->number[0] == shared->number[0] && other->number[1] < shared->number[1])) {
            return false;
        }
    }
    return true;
}

void cf_shared_stop(void) {
    for (struct cf_shared *shared = NULL; (shared = take(is_first, NULL)) != NULL;) {
        close_window(shared);
    }
}

/* Only a newly created window counts towards the limits, not a reused one. */
static bool open_shared(struct cf_comm *comm, const void *unused) {
    (void)unused;
    if (cf_shared_open(comm)) {
        return true;
    }
    static const char text[] =
        "a node has no room for a shared window of a communicator (in its shared memory, or by the "
        "limits of a process or of this library): variants go without, and sums of floats may be "
        "rounded otherwise than in other runs";
    int world_rank = 0;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (world_rank == 0) {
        cf_warn("%s", text);
    } else if (comm->layout.rank == 0) {
        cf_log(1, "%s", text);
    }
    return false;
}

int cf_shared_ready(struct cf_comm *comm, bool *ready) {
    const int err =
        cf_prepare_once(comm, 0, open_shared, NULL, comm->shared != NULL, &comm->shared_refused);
    *ready = comm->shared != NULL;
    return err;
}
