/*
 * What the library did for a job, as world rank 0 saw it: the last line at COLLFORGE_VERBOSE=1, and
 * the line of COLLFORGE_USAGE. No rank waits for another.
 *
 * The time saved is an estimate: for each call that a variant served, what such a call saved when
 * its winner was measured. What the call took in this job would not do, because most of it may be
 * waiting for other ranks. Not known for forced variants, points of the map, and winners that were
 * decided or published before there were times.
 */
#ifndef COLLFORGE_USAGE_H_INCLUDED
#define COLLFORGE_USAGE_H_INCLUDED

#include "base/cf.h"

/* Adds calls that a choice has served. Thread-safe, as the next one. */
void cf_usage_served(const struct cf_choice *choice, int64_t calls);
/* Adds blocking calls of a tuned collective, served by a variant or not, and the seconds in them.
 */
void cf_usage_called(int64_t calls, double seconds);

/* Adds a nonblocking call of a tuned collective. */
void cf_usage_started(bool served);

/* Logs the one, if cf_runtime.counts, and writes the other, if COLLFORGE_USAGE is set. Forgets what
 * was added. layout: of MPI_COMM_WORLD; NULL: not known. */
void cf_usage_tell(const char *layout);

#endif
