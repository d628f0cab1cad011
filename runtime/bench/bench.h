/*
 * Shared by the parts of the timing driver: the options, the state of the job, and the three steps
 * for a group of cases: verify, time, record.
 */
#ifndef COLLFORGE_BENCH_BENCH_H_INCLUDED
#define COLLFORGE_BENCH_BENCH_H_INCLUDED

#include <stdio.h>

#include "cases.h"
#include "clock.h"
#include "data.h"
#include "place/layout.h"

struct options {
    const char *cases;
    const char *output;
    int samples;
    int warmup;
    int timeout;        /* seconds per step */
    double max_seconds; /* per group; 0: no limit */
    unsigned seed;
    bool verify_only;
    int in_a_row; /* calls in one timing window, for collectives in which ranks cannot run ahead */
    bool prune;   /* candidates clearly behind get fewer samples */
    bool costs;   /* also measure processor time and memory */
    bool drop_in; /* native of a hybrid collective is called through the wrappers */
    bool own_clocks;
    bool sockets;      /* the layout tells of them */
    const char *parts; /* layout of the communicators into which the job is divided; NULL: none */
    enum device_use device; /* which buffers are in device memory */
    bool help;
};

/* What the calls under test use: MPI_COMM_WORLD, or with --parts this rank's part of it. */
struct tested {
    MPI_Comm comm;
    int rank;
    int size;
    struct cf_comm *state; /* the runtime's */
    int part;              /* this rank's part; 0 without --parts */
};

struct bench {
    struct options options;
    MPI_Comm comm; /* of the whole job, for the driver itself */
    int rank;
    int size;
    struct cf_comm *world; /* the runtime's state of MPI_COMM_WORLD */
    struct tested tested;
    char layout[2 * CF_LAYOUT_NAME_SIZE];
    struct clock clock;
    struct data data;
    double group_start;  /* local seconds */
    int64_t computation; /* between start and wait of a nonblocking call, in units; 0: not timed */
};

/* Seconds of the job by activity. */
struct spent {
    double verifying;
    double timing;
};

/* How a group was timed. */
struct timing {
    int repeats;        /* calls per sample */
    int late;           /* timing windows discarded because a rank started late */
    double start_error; /* seconds by which the latest accepted start was late */
};

/* ---- verify.c -------------------------------------------------------------------------------- */

/* The bytes by which a wrapper chooses. */
int64_t choice_bytes(const struct problem *problem);
/* The runtime's state of the communicator for the current problem. */
struct cf_comm *comm_of(struct bench *bench);
/* Resets the buffers for a call of this candidate. */
void reset_for(struct bench *bench, const struct candidate *candidate);
/* Makes the call under test and returns its error class. */
int call_candidate(struct bench *bench, const struct candidate *candidate);
/* Checks the buffers after the last call on this rank. The first failure is stored in
 * candidate->verified and detail. CF_DECLINED is a failure unless the candidate is known to
 * decline. */
void check_candidate(struct bench *bench, struct candidate *candidate, int err);
/* Makes candidate->verified equal on all ranks, and detail that of the first rank with a failure.
 * Collective. */
void settle_candidate(struct bench *bench, struct candidate *candidate);
/* Makes one call and verifies it. For a collective without a result (barrier), a rank enters late,
 * another one each turn, and no rank may leave before it enters. A candidate that declines in turn
 * 0 is not applicable. Collective. */
void verify_candidate(struct bench *bench, struct candidate *candidate, unsigned turn);
/* Prepares the group's operands, finds the applicable candidates, and verifies each of them once.
 * Collective. */
void verify_group(struct bench *bench, struct group *group);

/* ---- overlapped.c ---------------------------------------------------------------------------- */

/* call_candidate of a nonblocking problem: also waits. */
int call_nonblocking(struct bench *bench, const struct candidate *candidate);
/* Sets the computation between start and wait, for timing. Collective. */
void plan_computation(struct bench *bench, const struct problem *problem);

/* ---- costs.c --------------------------------------------------------------------------------- */

/* Sets cpu and memory of the verified candidates of the last verified group. Collective. */
void cost_group(struct bench *bench, struct group *group);

/* ---- sample.c -------------------------------------------------------------------------------- */

/* Sets the samples of the verified candidates of the last verified group. Collective. */
void time_group(struct bench *bench, struct group *group, unsigned shuffle, struct timing *timing);

/* ---- record.c -------------------------------------------------------------------------------- */

/* Write JSON lines; file is NULL except on rank 0. The first function is collective. They end the
 * job if writing fails. */
void record_job(FILE *file, const struct bench *bench);
void record_group(FILE *file, const struct bench *bench, const struct group *group,
                  const struct timing *timing);
void record_end(FILE *file, int cases, int failed, const struct spent *spent);

#endif
