/*
 * The operands of one problem on this rank: inputs, expected results, and the check of what a call
 * left.
 *
 * Inputs are a pure function of (seed, rank, block, element, lane), so that every rank computes the
 * expected result of any rank by itself and without MPI. Each buffer is kept as an image: the block
 * of memory with a guard before and behind, all of it filled with a pattern before the words are
 * put in. After a call the whole image is compared, which finds wrong results, overwritten guards
 * and holes, changed inputs and results where the standard wants none in one memcmp. The images
 * depend on the problem only; all variants of a group share them.
 */
#ifndef COLLFORGE_BENCH_DATA_H_INCLUDED
#define COLLFORGE_BENCH_DATA_H_INCLUDED

#include "cases.h"
#include "collforge_hybrid.h"
#include "device.h"
#include "placing.h"

struct memory {
    char *data;
    size_t capacity;
};

struct image {
    const char *name;
    const struct placing *placing; /* of the blocks that are defined after the call */
    size_t elements;
    size_t open; /* elements from here to the end are undefined after the call */
    size_t bytes;
    struct memory work; /* what the call gets: its own, or a piece of the node */
    struct memory own;
    struct device_memory device; /* where used, the call gets this, of which work is an image */
    struct memory before;        /* what it is before the call */
    struct memory after;         /* what it must be after the call */
};

/* The arrays of counts and displacements of one side of a call, in elements of its type. */
struct arrays {
    int *counts;
    int *displs;
};

/* Zero-initialised; the memory grows and is kept from problem to problem. */
struct data {
    const struct problem *problem;
    enum device_use device;
    struct sizes sizes;
    struct placing input;
    struct placing output;
    struct image send;
    struct image recv;
    struct arrays send_arrays;
    struct arrays recv_arrays;
    /* Of a collective of collforge_hybrid.h recv's work is in a piece of the node, but its own for
     * a native call, which has a copy per rank. */
    struct collforge_hybrid *hybrid; /* of MPI_COMM_WORLD; NULL before it is needed */
    struct memory piece;
    struct cf_args args;
    uint32_t *words[2]; /* scratch: one block each */
};

/* Makes the operands of a problem on MPI_COMM_WORLD, and the package that it needs. Collective. */
void data_prepare(struct data *data, const struct problem *problem, int rank, int size);
/* Puts the buffers back to what they were before a call, which is native or not. Collective over
 * the node where the problem is one of collforge_hybrid.h. */
void data_reset(struct data *data, bool native);
/* Whether the call that returned err left what it should: the result, or everything as it was where
 * it declined (CF_DECLINED). Else says in detail what is wrong, with the rank. */
bool data_check(struct data *data, int err, int rank, char *detail, size_t size);
void data_free(struct data *data);

#endif
