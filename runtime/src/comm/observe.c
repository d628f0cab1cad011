#include "comm/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/runtime.h"
#include "data/sizes.h"
#include "winners/choice.h"

/* Calls of one collective, layout and size bucket. No pointers, so that it can be sent. */
struct count {
    char layout[CF_LAYOUT_NAME_SIZE];
    int collective;
    int bucket; /* -1: zero bytes */
    int64_t calls;
};

static struct {
    pthread_mutex_t mutex;
    bool on;
    struct count *items;
    int count;
    int capacity;
} profile = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The hashes of the decisions already logged. */
static struct cf_handle_table logged = CF_HANDLE_TABLE_INITIALIZER;

void cf_observe_setup(bool on) {
    profile.on = on;
}

static int bucket_of(int64_t bytes) {
    return bytes == 0 ? -1 : cf_bucket((uint64_t)bytes);
}

static void bucket_range(int bucket, uint64_t *from, uint64_t *to) {
    *from = bucket < 0 ? 0 : cf_bucket_begin(bucket);
    *to = bucket < 0 ? 0 : cf_bucket_begin(bucket + 1) - 1;
}

/* Adds calls to a line of the profile; drops them when out of memory. */
static void add_calls(const char *layout, int collective, int bucket, int64_t calls) {
    for (int i = 0; i < profile.count; i++) {
        struct count *item = &profile.items[i];
        if (item->collective == collective && item->bucket == bucket &&
            strcmp(item->layout, layout) == 0) {
            item->calls += calls;
            return;
        }
    }
    if (profile.count == profile.capacity) {
        const int capacity = profile.capacity == 0 ? 64 : 2 * profile.capacity;
        void *items = realloc(profile.items, (size_t)capacity * sizeof *profile.items);
        if (items == NULL)
            return;
        profile.items = items;
        profile.capacity = capacity;
    }
    struct count *item = &profile.items[profile.count++];
    memset(item, 0, sizeof *item);
    strncpy(item->layout, layout, sizeof item->layout - 1);
    item->collective = collective;
    item->bucket = bucket;
    item->calls = calls;
}

/* Logs a line unless it was logged before. */
static void log_once(const char *line) {
    const uint64_t hash = cf_hash_text(CF_HASH_BEGIN, line);
    uintptr_t unused;
    if (!cf_handle_find(&logged, (uintptr_t)hash, &unused) &&
        cf_handle_insert(&logged, (uintptr_t)hash, 1))
        cf_log(2, "%s", line);
}

static void log_decision(const struct cf_state *state, int collective, int bucket,
                         const char *decision) {
    char line[CF_LAYOUT_NAME_SIZE + 512];
    uint64_t from = 0;
    uint64_t to = 0;
    bucket_range(bucket, &from, &to);
    (void)snprintf(line, sizeof line, "%s@%s, %" PRIu64 " to %" PRIu64 " bytes: %s",
                   cf_collectives[collective].name, state->layout_name, from, to, decision);
    log_once(line);
}

void cf_observe_call(const struct cf_state *state, int collective, int64_t bytes,
                     const struct cf_choice *choice) {
    char name[256] = "native";
    if (state->comm.layout.size == 0 || state->comm.layout.rank != 0)
        return;
    const int bucket = bucket_of(bytes);
    if (profile.on) {
        (void)pthread_mutex_lock(&profile.mutex);
        add_calls(state->layout_name, collective, bucket, 1);
        (void)pthread_mutex_unlock(&profile.mutex);
    }
    if (cf_log_level() < 2)
        return;
    if (choice != NULL)
        cf_choice_format(choice, name, sizeof name);
    log_decision(state, collective, bucket, name);
}

void cf_observe_refusal(const struct cf_state *state, int collective, int64_t bytes,
                        const struct cf_choice *choice) {
    char name[256];
    char decision[320];
    if (state->comm.layout.rank != 0 || cf_log_level() < 2)
        return;
    cf_choice_format(choice, name, sizeof name);
    (void)snprintf(decision, sizeof decision, "native, because %s does not apply", name);
    log_decision(state, collective, bucket_of(bytes), decision);
}

static int compare(const void *left, const void *right) {
    const struct count *a = left;
    const struct count *b = right;
    if (a->collective != b->collective)
        return a->collective < b->collective ? -1 : 1;
    const int by_layout = strcmp(a->layout, b->layout);
    return by_layout != 0 ? by_layout : (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

/* Called on world rank 0. */
static void write_profile(void) {
    const char *path = cf_variable(CF_VARIABLE_PROFILE);
    /* O_NONBLOCK: a pipe without a reader must not block MPI_Finalize. */
    const int descriptor =
        path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0666);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    bool written = file != NULL;
    if (profile.count > 0)
        qsort(profile.items, (size_t)profile.count, sizeof *profile.items, compare);
    if (file != NULL) {
        (void)fprintf(file, "collective,layout,bytes_from,bytes_to,calls\n");
        for (int i = 0; i < profile.count; i++) {
            const struct count *item = &profile.items[i];
            uint64_t from = 0;
            uint64_t to = 0;
            bucket_range(item->bucket, &from, &to);
            (void)fprintf(file, "%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRId64 "\n",
                          cf_collectives[item->collective].name, item->layout, from, to,
                          item->calls);
        }
        written = !ferror(file);
        written = fclose(file) == 0 && written;
    }
    if (!written)
        cf_warn("cannot write COLLFORGE_PROFILE=%s: %s", path == NULL ? "" : path, strerror(errno));
}

/* On world rank 0: memory for the counts of all ranks, and their displacements. */
static struct count *make_room(const int *counts, int *displs, int size) {
    size_t total = 0;
    if (counts == NULL || displs == NULL)
        return NULL;
    for (int rank = 0; rank < size; rank++) {
        displs[rank] = (int)total;
        total += (size_t)counts[rank];
    }
    return malloc((total + 1) * sizeof(struct count));
}

/* Gathers the counts of all ranks on world rank 0. By collectives only: a point-to-point message
 * could match one of the program. */
static void gather_counts(int rank, int size) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int *counts = rank == 0 ? malloc((size_t)size * sizeof *counts) : NULL;
    int *displs = rank == 0 ? malloc((size_t)size * sizeof *displs) : NULL;
    struct count *items = NULL;
    const int own = rank == 0 ? 0 : profile.count;
    bool good = rank != 0 || (counts != NULL && displs != NULL);

    good = PMPI_Type_contiguous((int)sizeof(struct count), MPI_BYTE, &type) == MPI_SUCCESS && good;
    good = good && PMPI_Type_commit(&type) == MPI_SUCCESS;
    if (!cf_all_agree(good) ||
        PMPI_Gather(&own, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
        goto cleanup;
    if (rank == 0)
        items = make_room(counts, displs, size);
    if (!cf_all_agree(rank != 0 || items != NULL) ||
        PMPI_Gatherv(profile.items, own, type, items, counts, displs, type, 0, MPI_COMM_WORLD) !=
            MPI_SUCCESS)
        goto cleanup;
    for (int i = 0; rank == 0 && i < displs[size - 1] + counts[size - 1]; i++)
        add_calls(items[i].layout, items[i].collective, items[i].bucket, items[i].calls);
cleanup:
    if (type != MPI_DATATYPE_NULL)
        (void)PMPI_Type_free(&type);
    free(counts);
    free(displs);
    free(items);
}

void cf_observe_finish(void) {
    int rank = 0;
    int size = 1;
    cf_handle_clear(&logged);
    if (!profile.on)
        return;
    profile.on = false;
    if (PMPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS &&
        PMPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS)
        gather_counts(rank, size);
    if (rank == 0)
        write_profile();
    free(profile.items);
    profile.items = NULL;
    profile.count = profile.capacity = 0;
}
