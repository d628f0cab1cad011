/*
 * What each collective's result is by definition, generated from the collective specs. The driver
 * derives from it the buffers, the expected result and the MPI_IN_PLACE forms of every collective;
 * it knows none of them by name.
 */
#ifndef COLLFORGE_ORACLE_H_INCLUDED
#define COLLFORGE_ORACLE_H_INCLUDED

#include "base/cf.h"

/* Which ranks may pass MPI_IN_PLACE, and in place of which buffer. */
enum cf_in_place {
    CF_IN_PLACE_NONE,
    CF_IN_PLACE_SEND_ALL,  /* sendbuf, on all ranks at once (allgather, allreduce, ...) */
    CF_IN_PLACE_SEND_ROOT, /* sendbuf, on the root (gather, reduce) */
    CF_IN_PLACE_RECV_ROOT, /* recvbuf, on the root (scatter): the root's result stays where it is */
};

/*
 * Blocks are count elements of the call's type, or as many as cf_collectives[].varies says. Every
 * function is given the rank asked about, the root (0 where there is none) and the size of the
 * communicator.
 */
struct cf_oracle {
    enum cf_in_place in_place;
    bool single_buffer; /* bcast: input and output are the one buffer */
    bool moves_nothing; /* barrier: no buffers; what it promises is an order in time */
    /* Which arrays the call has. The one array of a reduction, recvcounts, describes the input. */
    bool sendcounts;
    bool sdispls;
    bool recvcounts;
    bool rdispls;
    int (*in_blocks)(int rank, int root,
                     int size); /* blocks read from the input; 0: not significant */
    int (*out_blocks)(int rank, int root, int size); /* blocks of the result; 0: not significant */
    /* Block b of the result on rank is the combination, in rank order, of one input block of each
     * of the ranks first(...) <= q < last(...); a collective without an op has exactly one. An
     * empty range: the standard leaves the block undefined (exscan on rank 0) and the driver
     * expects it untouched. */
    int (*first)(int rank, int block, int root, int size);
    int (*last)(int rank, int block, int root, int size);
    int (*source_block)(int rank, int block, int root,
                        int size); /* which input block of those ranks */
    /* With MPI_IN_PLACE in sendbuf, and in a single buffer: the block of recvbuf at which this
     * rank's input begins. */
    int (*in_place_block)(int rank, int root, int size);
    /* Of a collective of collforge_hybrid.h, whose buffer is one piece of memory per node: what a
     * program calls in which every rank has a copy. NULL: cf_collectives has it. */
    int (*native)(const struct cf_args *args);
    /* The same through the wrappers, which run what the database of COLLFORGE_DB says. */
    int (*drop_in)(const struct cf_args *args);
};

/* [cf_ncollectives], in the order of cf_collectives. */
extern const struct cf_oracle cf_oracles[];

/* A numeric parameter that means what 0 does from the fact on: no case may name such a number. */
struct cf_limit {
    const char *family;
    const char *parameter;
    const char *fact;
    int (*below)(const struct cf_facts *facts);
};

/* Ends with one whose family is NULL. */
extern const struct cf_limit cf_limits[];

#endif
