/*
 * COLLFORGE_LEARN: what the guard found in this job, for the site's database (`collforge db
 * learn`).
 *
 * World rank 0 notes the verdicts on its communicators, and writes one small JSON file at the end:
 * 64 files a user at most, each of 64 KiB at most. The next job may overwrite one that nobody took
 * in. It is written whole or not at all. Where it cannot be written, nothing is, and nothing is
 * said. Nothing of the program, its user or its paths is in it.
 */
#ifndef COLLFORGE_LEARN_H_INCLUDED
#define COLLFORGE_LEARN_H_INCLUDED

#include "winners/winners.h"

/* How a variant did in a trial on a communicator of this layout. */
struct cf_lesson {
    char layout[CF_LAYOUT_NAME_SIZE];
    struct cf_choice choice;
    int64_t bytes;     /* the least of the bucket of sizes */
    double seconds[2]; /* of a call, on the slowest rank: native's, the variant's */
    int pairs;
    bool again; /* a re-test */
    bool kept;
};

/* On world rank 0, if COLLFORGE_LEARN is set: what follows is noted. system: whose winners apply.
 */
void cf_learn_begin(const char *system);
/* Does nothing where it has not begun. Of several verdicts on a choice, layout and size, what most
 * say is written, with their mean times. Thread-safe. */
void cf_learn_note(const struct cf_lesson *lesson);
/* Writes the file, if anything was noted, and forgets it. */
void cf_learn_end(void);

#endif
