/*
 * Copies device buffers of a call to host memory for the variant, and back. Variants access the
 * buffers directly, so they would crash on device memory.
 */
#ifndef COLLFORGE_STAGING_H_INCLUDED
#define COLLFORGE_STAGING_H_INCLUDED

#include "data/operands.h"
#include "device/gpu.h"

/* Some blocks of a buffer, contiguous or at displacements. */
struct cf_blocks_at {
    struct cf_side side;
    struct cf_unit unit;
    int first;
    int n; /* 0: none */
};

struct cf_staging {
    struct cf_args args;      /* of the call, with buffers that the processor can access */
    int err;                  /* local error: this rank still takes part in the collective */
    const struct cf_gpu *gpu; /* whose memory the receive buffer is in; NULL: host memory */
    ptrdiff_t offset;         /* bytes from the receive buffer to its copy */
    struct cf_blocks_at written;
};

/*
 * For each buffer that is significant on this rank and in device memory: copies what the variant
 * reads, and allocates room for what it writes. A whole buffer is assumed to be where its first
 * byte is. Local. Returns an MPI error class: MPI_ERR_NO_MEM.
 */
int cf_staging_begin(struct cf_staging *staging, const struct cf_args *args, int collective,
                     struct cf_comm *comm);

/* Call with the variant's result err. Copies what the variant wrote if it succeeded. Returns err,
 * or MPI_ERR_OTHER if the GPU runtime failed to copy. */
int cf_staging_end(struct cf_staging *staging, int err);

#endif
