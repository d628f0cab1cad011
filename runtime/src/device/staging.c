#include "device/staging.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "data/sizes.h"

/* A copy has the same alignment, modulo this, as its original: MPI libraries and users' ops may
 * depend on it. */
enum { ALIGNMENT = 256 };

/* ---- the memory of the blocks ---------------------------------------------------------------- */

/* The bytes from begin to end - 1, relative to the buffer's address. */
struct run {
    MPI_Aint begin, end;
};

/* An iteration over blocks. */
struct walk {
    const struct cf_blocks_at *blocks;
    int index;
    MPI_Aint elements; /* in the blocks before index */
};

static MPI_Aint begin_of(const struct walk *walk) {
    const struct cf_side *side = &walk->blocks->side;
    if (side->large_displs != NULL) {
        return side->large_displs[walk->index];
    }
    return side->displs != NULL ? side->displs[walk->index] : walk->elements;
}

/* The next contiguous blocks. Memory between two runs is never accessed: it may belong to something
 * else, or be unmapped. */
static bool next_run(struct walk *walk, struct run *run) {
    const struct cf_blocks_at *blocks = walk->blocks;
    const struct cf_unit *unit = &blocks->unit;
    MPI_Aint at = 0;
    MPI_Aint count = 0;

    if (blocks->n == 0) {
        return false;
    }
    for (; walk->index < blocks->first + blocks->n; walk->index++) {
        const struct cf_side *side = &blocks->side;
        const int elements = side->counts == NULL ? side->count : side->counts[walk->index];
        const bool mine = walk->index >= blocks->first && elements > 0;
        if (mine && count > 0 && begin_of(walk) != at + count) {
            break;
        }
        if (mine && count == 0) {
            at = begin_of(walk);
        }
        walk->elements += elements;
        count += mine ? elements : 0;
    }
    /* Extents may be negative. */
    const MPI_Aint first = at * unit->extent + unit->true_lb;
    const MPI_Aint last = first + (count - 1) * unit->extent;
    *run = (struct run){first < last ? first : last,
                        (first < last ? last : first) + unit->true_extent};
    return count > 0 && unit->true_extent > 0;
}

/* The span of all runs of two sets of blocks; empty if there are none. */
static struct run span_of(const struct cf_blocks_at *one, const struct cf_blocks_at *other) {
    const struct cf_blocks_at *const both[] = {one, other};
    struct run span = {0, 0};

    for (int i = 0; i < 2; i++) {
        struct walk walk = {.blocks = both[i]};
        struct run run;
        while (next_run(&walk, &run)) {
            const bool first = span.begin == span.end;
            span.begin = first || run.begin < span.begin ? run.begin : span.begin;
            span.end = first || run.end > span.end ? run.end : span.end;
        }
    }
    return span;
}

/* Illegal blocks count as none; the variant or the MPI library rejects them. */
static struct cf_blocks_at blocks_at(struct cf_side side, int first, int n) {
    struct cf_blocks_at blocks = {.side = side, .first = first, .n = n};
    bool legal = n > 0 && side.type != (MPI_Datatype)0 && side.type != MPI_DATATYPE_NULL &&
                 cf_type_size(side.type) >= 0 && cf_unit_of(side.type, &blocks.unit) == MPI_SUCCESS;

    for (int i = 0; legal && side.counts != NULL && i < first + n; i++) {
        legal = side.counts[i] >= 0;
    }
    if (!legal) {
        blocks.n = 0;
    }
    return blocks;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* buffer may be MPI_BOTTOM, which is NULL in the MPI libraries. */
static char *address_at(const void *buffer, ptrdiff_t offset) {
    return (char *)((uintptr_t)buffer + (uintptr_t)offset);
}

/* Data that cannot be read is sent as 0, so that the other ranks do not hang. */
static bool read_blocks(const struct cf_gpu *gpu, const struct cf_blocks_at *blocks,
                        ptrdiff_t offset) {
    struct walk walk = {.blocks = blocks};
    struct run run;
    bool good = true;

    while (next_run(&walk, &run)) {
        const char *device = address_at(blocks->side.buffer, run.begin);
        const size_t bytes = (size_t)(run.end - run.begin);
        if (!gpu->read(address_at(device, offset), device, bytes)) {
            memset(address_at(device, offset), 0, bytes);
            good = false;
        }
    }
    return good;
}

static bool write_blocks(const struct cf_gpu *gpu, const struct cf_blocks_at *blocks,
                         ptrdiff_t offset) {
    struct walk walk = {.blocks = blocks};
    struct run run;
    bool good = true;

    while (good && next_run(&walk, &run)) {
        char *device = address_at(blocks->side.buffer, run.begin);
        good = gpu->write(device, address_at(device, offset), (size_t)(run.end - run.begin));
    }
    return good;
}

/* Memory for a copy of these bytes, as the offset from device; 0 when out of memory. */
static ptrdiff_t room_for(struct cf_comm *comm, int slot, const char *device, size_t bytes) {
    char *memory = cf_tmpbuf(&comm->tmpbufs, slot, bytes + ALIGNMENT);
    const uintptr_t shift = ((uintptr_t)device - (uintptr_t)memory) % ALIGNMENT;

    return memory == NULL ? 0 : (ptrdiff_t)((uintptr_t)memory + shift - (uintptr_t)device);
}

static void say(const struct cf_comm *comm, const struct cf_gpu *gpu) {
    static atomic_bool said = false;
    if (!atomic_exchange(&said, true) && comm->layout.rank == 0) {
        cf_log(1, "buffers in %s device memory: variants run on copies in host memory", gpu->name);
    }
}

/* What this rank reads from a buffer, and writes to it. */
struct use {
    int slot;
    struct cf_blocks_at read, written;
};

/* Copies what is read from a buffer in device memory. */
static int stage(struct cf_staging *staging, const struct use *use, struct cf_comm *comm,
                 const struct cf_gpu **gpu, ptrdiff_t *offset) {
    const struct run span = span_of(&use->read, &use->written);
    const char *first = address_at(use->read.side.buffer, span.begin);
    const bool holes = !use->written.unit.dense;

    *gpu = span.begin == span.end ? NULL : cf_gpu_of(first);
    if (*gpu == NULL) {
        return MPI_SUCCESS;
    }
    *offset = room_for(comm, use->slot, first, (size_t)(span.end - span.begin));
    if (*offset == 0) {
        return MPI_ERR_NO_MEM;
    }
    say(comm, *gpu);
    /* Read first, so that the write-back does not change holes in elements. */
    const bool kept = !holes || read_blocks(*gpu, &use->written, *offset);
    if (!read_blocks(*gpu, &use->read, *offset) || !kept) {
        staging->err = MPI_ERR_OTHER;
    }
    return MPI_SUCCESS;
}

int cf_staging_begin(struct cf_staging *staging, const struct cf_args *args, int collective,
                     struct cf_comm *comm) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    const struct cf_layout *at = &comm->layout;
    const struct cf_side recv = cf_recv_side(args);
    const struct cf_gpu *gpu = NULL;
    ptrdiff_t offset = 0;

    *staging = (struct cf_staging){.args = *args};
    if (info->part == NULL) {
        return MPI_SUCCESS;
    }
    const struct cf_part part = info->part(at->rank, args->root, at->size);
    const bool in_place = info->single_buffer || args->sendbuf == MPI_IN_PLACE;
    const bool stays = args->recvbuf == MPI_IN_PLACE;
    /* The root's single buffer is both input and output, and is not written. A reduction's
     * recvcounts are those of its input blocks. */
    const bool gets = !stays && !(info->single_buffer && part.in_blocks > 0);
    struct cf_side send = cf_send_side(args);
    if (info->has_op) {
        send.counts = args->recvcounts;
    }
    struct use sends = {.slot = CF_SLOT_STAGED_SEND,
                        .read = blocks_at(send, 0, in_place ? 0 : part.in_blocks)};
    struct use receives = {
        .slot = CF_SLOT_STAGED_RECV,
        .read = blocks_at(recv, part.in_place_block, in_place && !stays ? part.in_blocks : 0),
        .written = blocks_at(recv, 0, gets ? part.out_blocks : 0)};
    if (info->has_op && args->recvcounts != NULL && receives.written.n > 0) {
        receives.written.side.count = args->recvcounts[at->rank];
        receives.written.side.counts = NULL;
    }
    CF_TRY(stage(staging, &sends, comm, &gpu, &offset));
    if (gpu != NULL) {
        staging->args.sendbuf = address_at(args->sendbuf, offset);
    }
    CF_TRY(stage(staging, &receives, comm, &staging->gpu, &staging->offset));
    if (staging->gpu != NULL) {
        staging->args.recvbuf = address_at(args->recvbuf, staging->offset);
    }
    staging->written = receives.written;
    return MPI_SUCCESS;
}

int cf_staging_end(struct cf_staging *staging, int err) {
    if (err == MPI_SUCCESS) {
        err = staging->err;
    }
    if (err == MPI_SUCCESS && staging->gpu != NULL &&
        !write_blocks(staging->gpu, &staging->written, staging->offset)) {
        err = MPI_ERR_OTHER;
    }
    return err;
}
