/*
 * The result of each collective by definition, generated from the collective specs. From it the
 * driver derives buffers, expected results and MPI_IN_PLACE forms; it knows no collective by name.
 */
#ifndef COLLFORGE_ORACLE_H_INCLUDED
#define COLLFORGE_ORACLE_H_INCLUDED

#include "base/cf.h"

/* Which ranks may pass MPI_IN_PLACE, and instead of which buffer. */
enum cf_in_place {
    CF_IN_PLACE_NONE,
    CF_IN_PLACE_SEND_ALL,  /* sendbuf, on all ranks at once (allgather, allreduce, ...) */
    CF_IN_PLACE_SEND_ROOT, /* sendbuf, on the root (gather, reduce) */
    CF_IN_PLACE_RECV_ROOT, /* recvbuf, on the root (scatter): the root's result stays in sendbuf */
};

/*
 * Blocks have count elements of the call's type, or sizes by cf_collectives[].varies. The functions
 * get the rank in question, the root (0 if there is none) and the size of the communicator.
 */
struct cf_oracle {
    enum cf_in_place in_place;
    bool single_buffer; /* bcast: one buffer for input and output */
    bool moves_nothing; /* barrier: no buffers; only its order in time can be checked */
    /* Which arrays the call has. A reduction has only recvcounts, which describes the input. */
    bool sendcounts;
    bool sdispls;
    bool recvcounts;
    bool rdispls;
    int (*in_blocks)(int rank, int root,
                     int size); /* blocks read from the input; 0: not significant */
    int (*out_blocks)(int rank, int root, int size); /* blocks of the result; 0: not significant */
    /* Block b of rank's result combines, in rank order, one input block of each rank q with
     * first(...) <= q < last(...). A collective without an op has exactly one such rank. For an
     * empty range the standard leaves the block undefined (exscan on rank 0), and the driver
     * expects it unchanged. */
    int (*first)(int rank, int block, int root, int size);
    int (*last)(int rank, int block, int root, int size);
    int (*source_block)(int rank, int block, int root,
                        int size); /* which input block of those ranks */
    /* The block of recvbuf where this rank's input begins, with MPI_IN_PLACE in sendbuf or with a
     * single buffer. */
    int (*in_place_block)(int rank, int root, int size);
    /* For a hybrid collective, whose buffer is one hybrid piece per node: the call of a program
     * with one copy per rank. NULL: cf_collectives has the native function. */
    int (*native)(const struct cf_args *args);
    /* The same through the wrappers, which run the winners of COLLFORGE_DB. */
    int (*drop_in)(const struct cf_args *args);
};

/* Legal values of all arguments that are no buffers, counts or arrays (generator/specs/roles.toml).
 * A function, because MPI's handles need not be constants of C. */
struct cf_args cf_plain_args(void);

/* [cf_ncollectives], in the order of cf_collectives. */
extern const struct cf_oracle cf_oracles[];

/* A numeric parameter whose values from the fact on mean the same as 0. Cases may not use them. */
struct cf_limit {
    const char *family;
    const char *parameter;
    const char *fact;
    int (*below)(const struct cf_facts *facts);
};

/* The last entry has family NULL. */
extern const struct cf_limit cf_limits[];

#endif
