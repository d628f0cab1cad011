/*
 * What the parts of the timing driver share: the options, the state of the job, and the three
 * things done to a group of cases: verified, timed, recorded.
 */
#ifndef COLLFORGE_BENCH_BENCH_H_INCLUDED
#define COLLFORGE_BENCH_BENCH_H_INCLUDED

#include <stdio.h>

#include "cases.h"
#include "clock.h"
#include "data.h"

struct options {
    const char *cases;
    const char *output;
    int samples;
    int warmup;
    int timeout;        /* seconds of one step */
    double max_seconds; /* of one group; 0: no limit */
    unsigned seed;
    bool verify_only;
    int in_a_row; /* calls in a window, where ranks cannot run ahead */
    bool prune;   /* candidates that are clearly behind get fewer samples */
    bool costs;   /* processor time and memory, too */
    bool drop_in; /* native of a hybrid collective goes through the wrappers */
    bool own_clocks;
    enum device_use device; /* which buffers are in device memory */
    bool help;
};

struct bench {
    struct options options;
    MPI_Comm comm; /* the driver's own traffic; the calls under test run on MPI_COMM_WORLD */
    int rank;
    int size;
    struct cf_comm *world; /* what variants work with on MPI_COMM_WORLD */
    char layout[512];
    struct clock clock;
    struct data data;
    double group_start; /* local seconds */
};

/* Where the seconds of the job went. */
struct spent {
    double verifying;
    double timing;
};

/* How a group was timed. */
struct timing {
    int repeats;        /* calls behind one sample */
    int late;           /* windows thrown away because a rank started late */
    double start_error; /* seconds by which the latest start that counted was late */
};

/* ---- verify.c -------------------------------------------------------------------------------- */

/* What variants work with in the problem at hand. */
struct cf_comm *comm_of(struct bench *bench);
/* Puts the buffers back for a call of this candidate. */
void reset_for(struct bench *bench, const struct candidate *candidate);
/* Makes the call under test; returns its error class. */
int call_candidate(struct bench *bench, const struct candidate *candidate);
/* Checks what the last call left, on this rank; a first failure goes to candidate->verified and
 * detail. CF_DECLINED is one, unless the candidate is known to decline. */
void check_candidate(struct bench *bench, struct candidate *candidate, int err);
/* All ranks agree on candidate->verified, and on the detail of the first rank that is not content.
 * Collective. */
void settle_candidate(struct bench *bench, struct candidate *candidate);
/* Makes one call and verifies it. Where there is no result a rank enters late, another one each
 * turn; nobody may leave before. A candidate that declines in turn 0 is not applicable. Collective.
 */
void verify_candidate(struct bench *bench, struct candidate *candidate, unsigned turn);
/* Prepares the group's operands, finds out who is applicable, and verifies each candidate once.
 * Collective. */
void verify_group(struct bench *bench, struct group *group);

/* ---- costs.c --------------------------------------------------------------------------------- */

/* Fills cpu and memory of the verified candidates of the group verified last. Collective. */
void cost_group(struct bench *bench, struct group *group);

/* ---- sample.c -------------------------------------------------------------------------------- */

/* Fills the samples of the verified candidates of the group verified last. Collective. */
void time_group(struct bench *bench, struct group *group, unsigned shuffle, struct timing *timing);

/* ---- record.c -------------------------------------------------------------------------------- */

/* JSON lines; file is NULL except on rank 0. The first one is collective. End the job when the disk
 * is full. */
void record_job(FILE *file, const struct bench *bench);
void record_group(FILE *file, const struct bench *bench, const struct group *group,
                  const struct timing *timing);
void record_end(FILE *file, int cases, int failed, const struct spent *spent);

#endif
