/* Scratch memory of the variants. A call allocates only if it needs more than all earlier calls on
 * its communicator. */
#ifndef COLLFORGE_TMPBUF_H_INCLUDED
#define COLLFORGE_TMPBUF_H_INCLUDED

#include <stdatomic.h>

#include "base/cf.h"
#include "base/runtime.h"

/* Slots of cf_tmpbufs used by helpers; variants number theirs from CF_SLOT_FIRST_FREE. */
enum {
    CF_SLOT_INPUT,
    CF_SLOT_OUTPUT,
    CF_SLOT_PACK,
    CF_SLOT_LANE,
    CF_SLOT_PARTS,
    CF_SLOT_UNITS,
    CF_SLOT_PAIRS,
    CF_SLOT_POSITIONS,
    CF_SLOT_OPERAND,
    CF_SLOT_RESULT,
    CF_SLOT_COPIES,
    CF_SLOT_PIPE,
    CF_SLOT_STAGED_SEND,
    CF_SLOT_STAGED_RECV,
    CF_SLOT_FIRST_FREE
};

/* The slot's memory: at least bytes long, aligned for any type, not NULL for 0 bytes. Its contents
 * are undefined. NULL when out of memory. */
void *cf_tmpbuf(struct cf_tmpbufs *tmpbufs, int slot, size_t bytes);
void cf_tmpbufs_free(struct cf_tmpbufs *tmpbufs);

/* Bytes allocated in temporaries of all communicators of this process. */
extern _Atomic int64_t cf_tmpbuf_bytes;

/* After a call: frees its communicator's temporaries if all together exceed COLLFORGE_MEMORY. */
static inline void cf_tmpbufs_trim(struct cf_tmpbufs *tmpbufs) {
    if (atomic_load_explicit(&cf_tmpbuf_bytes, memory_order_relaxed) > cf_runtime.memory) {
        cf_tmpbufs_free(tmpbufs);
    }
}

#endif
