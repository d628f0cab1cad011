/*
 * Parses case strings into groups. A group has all candidates (native among them) for one problem.
 *
 * allreduce:full_lane[segment_bytes=65536]@4x2,bytes=262144,type=double,op=sum,in_place,seed=7
 * alltoallv:native@4x2,bytes=1024,uneven
 * barrier:native@4x2,bytes=1
 * iallreduce:native@4x2,bytes=262144
 */
#ifndef COLLFORGE_BENCH_CASES_H_INCLUDED
#define COLLFORGE_BENCH_CASES_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cf.h"
#include "types.h"

enum { DETAIL_SIZE = 320 };

/* A problem: a case without its variant. */
struct problem {
    int collective;   /* index in cf_collectives */
    bool nonblocking; /* the case names its nonblocking form */
    int64_t bytes;    /* of one block; the mean if blocks are uneven */
    int count;        /* elements of one block, likewise */
    const struct element *element;
    enum operation op; /* OP_NONE for collectives without one */
    int root;
    bool in_place;
    bool uneven; /* blocks of different sizes, with gaps between them */
    unsigned seed;
};

/* One variant of a group, and its results. */
struct candidate {
    char *text;    /* the case string as given */
    char *variant; /* its canonical text: all parameters */
    struct cf_choice choice;
    bool applicable;
    bool declined; /* the variant left the problem to native (CF_DECLINED) */
    bool verified;
    double first_call;        /* seconds of the verifying call on this rank */
    char detail[DETAIL_SIZE]; /* of a failed verification */
    double *samples;          /* [nsamples] seconds */
    double *start_errors;     /* [nsamples] seconds by which the last rank started late */
    int nsamples;
    double cpu;              /* seconds of processor time of a call, over all ranks */
    int64_t memory;          /* bytes of temporaries, maximum over the ranks */
    int64_t memory_estimate; /* the estimate that decides for native (cf_memory_estimate) */
};

struct group {
    char *text; /* the problem string: the case string without the variant */
    struct problem problem;
    struct candidate *candidates;
    int ncandidates;
};

struct plan {
    struct group *groups;
    int ngroups;
    int ncases;
};

/* The job against which case strings are checked. */
struct setting {
    const char *layout; /* name of the tested communicators' layout */
    int size;           /* of a tested communicator */
    const struct cf_layout *at;
    unsigned seed; /* default of cases */
    unsigned part; /* added to the seed, so that a part shows what it gets of another's data */
    /* Whether to add native to groups without it. Timing needs native as the base of all ratios.
     * Verification must not fail because of a defect of the MPI library, such as MPICH 4.0.2's
     * in-place MPI_Reduce at a root other than 0. */
    bool with_native;
};

/*
 * Parses one case string per line. Consecutive lines with the same problem form a group. Native is
 * inserted first in groups without it if setting->with_native. If loud, bad lines are reported on
 * stderr. Returns the number of bad lines; a text without cases counts as one. The caller frees the
 * plan in any case.
 */
int plan_read(struct plan *plan, char *text, const struct setting *setting, bool loud);
void plan_free(struct plan *plan);

#endif
