#include "comm/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/runtime.h"
#include "data/sizes.h"

struct row {
    uint64_t hash; /* of key */
    struct cf_profile_key key;
    struct cf_profile_sums sums;
    double least; /* seconds of a call on the rank with the shortest mean; once summed */
};

struct rows {
    struct row *items;
    int count;
    int capacity;
};

/* Of this rank. */
static struct {
    pthread_mutex_t mutex;
    struct rows rows;
} profile = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void cf_profile_sizes(int bucket, uint64_t *from, uint64_t *to) {
    *from = bucket < 0 ? 0 : cf_bucket_begin(bucket);
    *to = bucket < 0 ? 0 : cf_bucket_begin(bucket + 1) - 1;
}

/* NULL when out of memory. */
static struct row *append(struct rows *rows) {
    if (rows->count == rows->capacity) {
        const int capacity = rows->capacity == 0 ? 64 : 2 * rows->capacity;
        void *items = realloc(rows->items, (size_t)capacity * sizeof *rows->items);
        if (items == NULL) {
            return NULL;
        }
        rows->items = items;
        rows->capacity = capacity;
    }
    struct row *row = &rows->items[rows->count++];
    memset(row, 0, sizeof *row);
    return row;
}

/* A new row is all zeros. NULL when out of memory. */
static struct row *row_of(const struct cf_profile_key *key) {
    const uint64_t hash = cf_hash(CF_HASH_BEGIN, key, sizeof *key);
    for (int i = 0; i < profile.rows.count; i++) {
        if (profile.rows.items[i].hash == hash) {
            return &profile.rows.items[i];
        }
    }
    struct row *row = append(&profile.rows);
    if (row != NULL) {
        row->hash = hash;
        row->key = *key;
    }
    return row;
}

void cf_profile_add(const struct cf_profile_key *key, const struct cf_profile_sums *sums) {
    (void)pthread_mutex_lock(&profile.mutex);
    struct row *row = row_of(key);
    if (row != NULL) {
        row->sums.communicators += sums->communicators;
        row->sums.dropped += sums->dropped;
        row->sums.calls += sums->calls;
        row->sums.bytes += sums->bytes;
        row->sums.rank_calls += sums->rank_calls;
        row->sums.seconds += sums->seconds;
        row->sums.in_mpi += sums->in_mpi;
    }
    (void)pthread_mutex_unlock(&profile.mutex);
}

/* ---- sum over the ranks ---------------------------------------------------------------------- */

static int by_hash(const void *left, const void *right) {
    const struct row *a = left;
    const struct row *b = right;
    return (a->hash > b->hash) - (a->hash < b->hash);
}

static int by_key(const void *left, const void *right) {
    const struct cf_profile_key *a = &((const struct row *)left)->key;
    const struct cf_profile_key *b = &((const struct row *)right)->key;
    if (a->collective != b->collective) {
        return a->collective < b->collective ? -1 : 1;
    }
    const int by_layout = strcmp(a->layout, b->layout);
    if (by_layout != 0) {
        return by_layout;
    }
    if (a->origin != b->origin) {
        return a->origin < b->origin ? -1 : 1;
    }
    if (a->blocking != b->blocking) {
        return a->blocking < b->blocking ? 1 : -1;
    }
    return (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

/* Sums a row over all ranks, of which those without it have own NULL. The result is valid on world
 * rank 0. */
static bool sum_row(const struct row *own, struct row *out) {
    const struct row none = {.least = HUGE_VAL};
    struct row mine = own == NULL ? none : *own;
    if (own != NULL) {
        mine.least = own->sums.seconds / own->sums.rank_calls;
        mine.sums.ranks = 1;
    }
    /* All that have the key have the same; the others have zeros. */
    return PMPI_Reduce(&mine.key, &out->key, (int)sizeof mine.key, MPI_UNSIGNED_CHAR, MPI_MAX, 0,
                       MPI_COMM_WORLD) == MPI_SUCCESS &&
           PMPI_Reduce(&mine.sums, &out->sums, (int)(sizeof mine.sums / sizeof(double)), MPI_DOUBLE,
                       MPI_SUM, 0, MPI_COMM_WORLD) == MPI_SUCCESS &&
           PMPI_Reduce(&mine.least, &out->least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD) ==
               MPI_SUCCESS;
}

/*
 * By collectives alone: a message could match one of the program, and a communicator might not be
 * had. One row after the other, in the order of the hashes, so that no rank needs memory for the
 * rows of others.
 */
static void sum_rows(int rank, struct rows *all) {
    const struct rows *own = &profile.rows;
    struct row sum = {0};
    int next = 0;
    if (own->count > 0) {
        qsort(own->items, (size_t)own->count, sizeof *own->items, by_hash);
    }
    for (;;) {
        const uint64_t mine = next < own->count ? own->items[next].hash : UINT64_MAX;
        uint64_t least = UINT64_MAX;
        if (PMPI_Allreduce(&mine, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD) !=
                MPI_SUCCESS ||
            least == UINT64_MAX) {
            return;
        }
        if (!sum_row(mine == least ? &own->items[next++] : NULL, &sum)) {
            return;
        }
        struct row *row = rank == 0 ? append(all) : NULL;
        if (row != NULL) {
            *row = sum;
        }
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

/* With a point, whatever the program's locale. */
static void write_seconds(FILE *file, double seconds, const char *end) {
    const int64_t whole = (int64_t)seconds; /* of all ranks: nanoseconds might not fit */
    const int64_t nanoseconds = (int64_t)((seconds - (double)whole) * 1e9);
    (void)fprintf(file, "%" PRId64 ".%09" PRId64 "%s", whole, nanoseconds, end);
}

/* Whether a rank may return before all have called, or have less to do than others. */
static bool leaves_early(const struct cf_profile_key *key) {
    if (key->collective < 0) {
        return false;
    }
    const struct cf_collective_info *info = &cf_collectives[key->collective];
    return info->rooted || info->prefix || info->varies == CF_VARIES_PAIR || key->bucket < 0;
}

/* By the differences between the ranks; of nonblocking calls, the time in MPI. */
static double waited(const struct row *row) {
    if (!row->key.blocking) {
        return row->sums.in_mpi;
    }
    const double seconds = row->sums.seconds - row->least * row->sums.rank_calls;
    const bool alone = row->sums.rank_calls <= row->sums.calls;
    return alone || leaves_early(&row->key) || seconds < 0 ? 0 : seconds;
}

static void write_row(FILE *file, const struct row *row) {
    static const char *const origins[] = {"world", "duplicate", "other", "tuned"};
    const struct cf_profile_sums *sums = &row->sums;
    uint64_t from = 0;
    uint64_t to = 0;
    cf_profile_sizes(row->key.bucket, &from, &to);
    (void)fprintf(file, "%s,%s,%" PRIu64 ",%" PRIu64 ",%d,%.0f,%s,%.0f,%.0f,%.0f,%.0f,",
                  row->key.collective < 0 ? "job" : cf_collectives[row->key.collective].name,
                  row->key.layout, from, to, row->key.blocking, sums->calls,
                  origins[row->key.origin], sums->communicators, sums->ranks, sums->dropped,
                  sums->bytes);
    write_seconds(file, sums->seconds, ",");
    write_seconds(file, waited(row), "\n");
}

static void write_file(const struct rows *rows) {
    const char *path = cf_variable(CF_VARIABLE_PROFILE);
    /* O_NONBLOCK: a pipe without a reader must not block MPI_Finalize. */
    const int descriptor =
        path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0666);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    bool written = file != NULL;
    if (file != NULL) {
        (void)fprintf(file,
                      "collective,layout,bytes_from,bytes_to,blocking,calls,origin,communicators,"
                      "ranks,dropped,call_bytes,seconds,waited\n");
        for (int i = 0; i < rows->count; i++) {
            write_row(file, &rows->items[i]);
        }
        written = !ferror(file);
        written = fclose(file) == 0 && written;
    }
    if (!written) {
        cf_warn("cannot write COLLFORGE_PROFILE=%s: %s", path == NULL ? "" : path, strerror(errno));
    }
}

void cf_profile_write(void) {
    struct rows all = {0};
    int rank = 0;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sum_rows(rank, &all);
    if (rank == 0) {
        if (all.count > 0) {
            qsort(all.items, (size_t)all.count, sizeof *all.items, by_key);
        }
        write_file(&all);
    }
    free(all.items);
    free(profile.rows.items);
    memset(&profile.rows, 0, sizeof profile.rows);
}
