/*
 * Case strings, read into groups: all the candidates (native among them) for one problem.
 *
 * allreduce:full_lane[segment_bytes=65536]@4x2,bytes=262144,type=double,op=sum,in_place,seed=7
 * alltoallv:native@4x2,bytes=1024,uneven
 * barrier:native@4x2,bytes=1
 */
#ifndef COLLFORGE_BENCH_CASES_H_INCLUDED
#define COLLFORGE_BENCH_CASES_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cf.h"
#include "types.h"

enum { DETAIL_SIZE = 320 };

/* What is to be solved: a case without its variant. */
struct problem {
    int collective; /* index in cf_collectives */
    int64_t bytes;  /* of one block; of uneven ones on average */
    int count;      /* elements of one block, likewise */
    const struct element *element;
    enum operation op; /* OP_NONE for collectives without one */
    int root;
    bool in_place;
    bool uneven; /* blocks of different sizes, with gaps between them */
    unsigned seed;
};

/* One variant of a group, and what came out. */
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
    double cpu;              /* seconds of processor time of a call, of all ranks together */
    int64_t memory;          /* bytes of temporaries on the rank that has most */
    int64_t memory_estimate; /* by which a call is left to native (cf_memory_estimate) */
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

/* What case strings are checked against. */
struct setting {
    const char *layout; /* the name of MPI_COMM_WORLD's */
    int size;
    const struct cf_layout *at; /* the layout itself */
    unsigned seed;              /* of cases that name none */
    /* Whether groups that do not name native get it. Timing needs it as the base of all ratios;
     * verifying must not fall over a defect of the library, such as MPICH 4.0.2's MPI_Reduce in
     * place at a root other than 0. */
    bool with_native;
};

/*
 * Reads one case string a line. Consecutive lines with the same problem make a group; native is put
 * first into a group without it where the setting asks for that. Every bad line is reported on
 * stderr where loud; returns the number of them. A text without cases counts as one. The plan is to
 * be freed in any case.
 */
int plan_read(struct plan *plan, char *text, const struct setting *setting, bool loud);
void plan_free(struct plan *plan);

#endif
