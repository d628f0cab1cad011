/* The profile of a job: its calls by collective, size and kind of communicator. */
#ifndef COLLFORGE_PROFILE_H_INCLUDED
#define COLLFORGE_PROFILE_H_INCLUDED

#include "place/layout.h"

/* How a communicator was made: MPI_COMM_WORLD; by duplication; otherwise (split, create, ...). Or
 * of the job: with winners. */
enum cf_origin { CF_ORIGIN_WORLD, CF_ORIGIN_DUPLICATE, CF_ORIGIN_OTHER, CF_ORIGIN_TUNED };

/* What a row is about. Ranks compare it byte by byte, so it is filled from zeros. */
struct cf_profile_key {
    int collective; /* -1: the job */
    int bucket;     /* -1: zero bytes */
    int blocking;   /* 0 or 1 */
    int origin;     /* enum cf_origin */
    char layout[CF_LAYOUT_NAME_SIZE];
};

/* Doubles, so that one reduction sums them. The first four are counted by rank 0 of each
 * communicator, the others by all its ranks, and so are bytes that only an exchange would tell. */
struct cf_profile_sums {
    double communicators, dropped, calls, bytes, rank_calls, seconds, in_mpi;
    double ranks; /* 1 on each that has the row */
};

/* The smallest and the largest size in a bucket; -1: both zero. */
void cf_profile_sizes(int bucket, uint64_t *from, uint64_t *to);

/* Adds to the row of this key. Drops it when out of memory. Thread-safe. */
void cf_profile_add(const struct cf_profile_key *key, const struct cf_profile_sums *sums);
/* Sums the rows of all ranks, and writes them on world rank 0 (observe.h has the format). The
 * profile is empty afterwards. Collective over MPI_COMM_WORLD. */
void cf_profile_write(void);

#endif
