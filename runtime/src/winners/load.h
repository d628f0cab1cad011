/*
 * What the readers of databases (winners.c) and of published files (published.c) share: whose
 * winners are wanted, the checks of a winner, and the reason of a failure.
 */
#ifndef COLLFORGE_LOAD_H_INCLUDED
#define COLLFORGE_LOAD_H_INCLUDED

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "winners/winners.h"

struct cf_load {
    const char *path;
    const char *wanted;                           /* the system; NULL: the host's */
    time_t deadline;                              /* in seconds of the monotonic clock */
    char system[256];                             /* that is wanted, when it is known */
    char version[MPI_MAX_LIBRARY_VERSION_STRING]; /* of the MPI library, without trailing blanks */
    char first_line[MPI_MAX_LIBRARY_VERSION_STRING]; /* of version */
    struct cf_winners *winners;
    int before, layouts_before; /* the winners and layouts that were there before */
    char *why;
    size_t whysize;
};

/* Writes the reason; returns false. */
__attribute__((format(printf, 2, 3))) bool cf_load_fail(struct cf_load *load, const char *format,
                                                        ...);
/* Sets the members from deadline to first_line, and what was there before. */
bool cf_load_begin(struct cf_load *load);
bool cf_load_is_late(const struct cf_load *load);
/* Whether the path is a file that is not empty. */
bool cf_load_is_file(struct cf_load *load);

/* Opens a regular file for reading; NULL for anything else. A pipe would block until it has a
 * writer. Sets status, all zeros if there is no such path. */
FILE *cf_load_open(const char *path, struct stat *status);

/* The systems of a file, of which the host's is wanted. */
struct cf_systems {
    char host[256];
    char last[256];
    char matching[256];
    int count, matches;
};

void cf_systems_begin(struct cf_systems *systems);
/* pattern: the regular expression of the system's hosts. */
void cf_systems_add(struct cf_systems *systems, const char *name, const char *pattern);
/* Sets load->system to the only system, or the only one that matches the host. */
bool cf_systems_choose(const struct cf_systems *systems, struct cf_load *load);

/* What a winner names, and what this library has under that name. */
struct cf_load_choice {
    const char *collective;
    const char *variant; /* "native" or "full_lane[...]" */
    const char *fingerprint;
    bool proven; /* has a passing verification */
    bool known;  /* checked; then the members below are set */
    int index;   /* of the collective */
    struct cf_choice choice;
};

/* The nanoseconds of a call by a variant; and of native, with the ends of that interval. Zeros
 * where they are not known. */
enum { CF_TIMES = 4 };

/* Adds a winner. tie: native, as fast as the best variant. Sizes and points of the map that do not
 * fit are left out; any other winner that does not fit is a failure. Times that cannot be count as
 * not known. */
bool cf_load_add(struct cf_load *load, const char *layout, int64_t bytes,
                 struct cf_load_choice *stored, bool tie, const int64_t times[CF_TIMES]);
/* Whether there are winners. */
bool cf_load_end(struct cf_load *load);
/* Removes all that was added. */
void cf_load_undo(const struct cf_load *load);

/* ---- published files (published.c) ----------------------------------------------------------- */

/* Whether the file begins like a published one. */
bool cf_published_is(const char *path);
/* Adds the wanted winners. sha256: the digest that the file must have; NULL: any. */
bool cf_published_load(struct cf_load *load, const char *sha256);

#endif
