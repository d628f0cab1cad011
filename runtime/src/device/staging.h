/*
 * Device buffers of a call, copied to host memory for the variant and back. Without them a variant,
 * which loads and stores in the buffers, would crash.
 */
#ifndef COLLFORGE_STAGING_H_INCLUDED
#define COLLFORGE_STAGING_H_INCLUDED

#include "data/operands.h"
#include "device/gpu.h"

/* Some blocks of a buffer, one behind the other or at displacements. */
struct cf_blocks_at {
    struct cf_side side;
    struct cf_unit unit;
    int first;
    int n; /* 0: none */
};

struct cf_staging {
    struct cf_args args;      /* of the call, but with buffers that the processor can access */
    int err;                  /* that this rank has met alone: it takes part all the same */
    const struct cf_gpu *gpu; /* whose memory the receive buffer is in; NULL: nobody's */
    ptrdiff_t offset;         /* from the receive buffer to its copy */
    struct cf_blocks_at written;
};

/*
 * Makes the copies of what the variant reads, and room for what it writes, where a buffer that is
 * significant on this rank is in device memory. A buffer lies in one memory: where its first byte
 * is. Local. Returns an MPI error class: MPI_ERR_NO_MEM.
 */
int cf_staging_begin(struct cf_staging *staging, const struct cf_args *args, int collective,
                     struct cf_comm *comm);

/* After the variant has returned err: copies what it wrote, where it succeeded. Returns err, or
 * MPI_ERR_OTHER where the runtime could not copy. */
int cf_staging_end(struct cf_staging *staging, int err);

#endif
