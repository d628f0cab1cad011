#include "serve/call_bytes.h"

#include "base/cf.h"
#include "data/sizes.h"
#include "serve/fast.h"

/*
 * The bytes of all blocks divided by the number of ranks, rounded up; negative if a count is. Sums
 * bytes, not elements, because ranks may describe one signature by different types.
 */
static int64_t mean_bytes(const int *counts, int ranks, int64_t type_size) {
    for (int rank = 0; rank < ranks; rank++)
        if (counts[rank] < 0)
            return -1;
    return (cf_sum(counts, ranks) * type_size + ranks - 1) / ranks;
}

int64_t cf_call_bytes(int collective, int count, MPI_Datatype type, const int *counts, int ranks) {
    const enum cf_sized sized = cf_collectives[collective].sized;
    if (sized != CF_SIZED_BLOCK && sized != CF_SIZED_MEAN)
        return CF_UNSIZED_BYTES;
    const int64_t size = cf_type_size(type);
    return size < 0 ? -1 : counts == NULL ? count * size : mean_bytes(counts, ranks, size);
}
