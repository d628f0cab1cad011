/*
 * The operands of one problem on this rank: inputs, expected results, and the check after a call.
 *
 * Inputs are a pure function of (seed, rank, block, element, lane), so every rank can compute the
 * expected result of any rank, without a collective. The images (image.h) of its buffers depend on
 * the problem only; all variants of a group share them.
 */
#ifndef COLLFORGE_BENCH_DATA_H_INCLUDED
#define COLLFORGE_BENCH_DATA_H_INCLUDED

#include "cases.h"
#include "collforge_hybrid.h"
#include "image.h"

/* The arrays of counts and displacements of one side of a call, in elements of its type. */
struct arrays {
    int *counts;
    int *displs;
};

/* Zero-initialised; the memory grows and is reused from problem to problem. */
struct data {
    const struct problem *problem;
    MPI_Comm comm; /* of the calls under test */
    enum device_use device;
    struct sizes sizes;
    struct placing input;
    struct placing output;
    struct image send;
    struct image recv;
    struct arrays send_arrays;
    struct arrays recv_arrays;
    /* For a hybrid collective, recv.work and send.work are in a hybrid piece of the node. For a
     * native call they are recv.own and send.own, because native has one copy per rank. */
    struct collforge_hybrid *hybrid; /* of the tested communicator; NULL until needed */
    struct memory piece;
    size_t input_at; /* of send.work in the piece, in bytes */
    struct cf_args args;
    uint32_t *words[2]; /* scratch of one block each */
};

/* Prepares the operands of a problem on a communicator, and the package if it needs one.
 * Collective. */
void data_prepare(struct data *data, const struct problem *problem, MPI_Comm comm);
/* Restores the buffers to their contents before a call of native or of a variant. Collective over
 * the node for a hybrid collective. */
void data_reset(struct data *data, bool native);

/* Whether a call leaves its input as it was, so that it can be repeated without data_reset. */
bool data_survives(const struct data *data);

/* Whether the buffers are right after a call that returned err: the expected result, or unchanged
 * after CF_DECLINED. Otherwise detail says what is wrong, and on which rank. */
bool data_check(struct data *data, int err, int rank, char *detail, size_t size);
void data_free(struct data *data);

#endif
