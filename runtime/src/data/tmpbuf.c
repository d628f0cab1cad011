/* Scratch memory of the variants: a call allocates only when it needs more than any call before it
 * on its communicator. */
#include "base/cf.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/runtime.h"

_Atomic int64_t cf_tmpbuf_bytes = 0;

static void give_back(struct cf_tmpbufs *tmpbufs, int slot) {
    free(tmpbufs->data[slot]);
    (void)atomic_fetch_sub_explicit(&cf_tmpbuf_bytes, (int64_t)tmpbufs->capacity[slot],
                                    memory_order_relaxed);
    tmpbufs->data[slot] = NULL;
    tmpbufs->capacity[slot] = 0;
}

void *cf_tmpbuf(struct cf_tmpbufs *tmpbufs, int slot, size_t bytes) {
    if (tmpbufs->data[slot] == NULL || tmpbufs->capacity[slot] < bytes) {
        const size_t capacity = bytes > 0 ? bytes : 1;
        /* Not realloc: the old contents are worth nothing, and copying them would cost. */
        give_back(tmpbufs, slot);
        tmpbufs->data[slot] = malloc(capacity);
        if (tmpbufs->data[slot] == NULL) {
            cf_warn("%zu bytes for a collective could not be had", capacity);
            return NULL;
        }
        tmpbufs->capacity[slot] = capacity;
        (void)atomic_fetch_add_explicit(&cf_tmpbuf_bytes, (int64_t)capacity, memory_order_relaxed);
    }
    return tmpbufs->data[slot];
}

void cf_tmpbufs_free(struct cf_tmpbufs *tmpbufs) {
    for (int slot = 0; slot < CF_TMPBUF_SLOTS; slot++)
        give_back(tmpbufs, slot);
}

int64_t cf_memory_estimate(const struct cf_choice *choice, const struct cf_facts *facts) {
    const struct cf_temporaries *has = &choice->variant->temporaries;
    const int bound = has->lanes_above == 0 ? 0 : choice->parameter[has->lanes_above - 1];
    int64_t lanes = has->single ? 1 : facts->min_node_size;
    if (bound > 0 && bound < lanes)
        lanes = bound;
    const int64_t held = (facts->max_node_size + lanes - 1) / lanes; /* ranks of a node on a lane */
    return facts->total_bytes * (has->vector + held * has->crossing) +
           facts->bytes * held * (has->share + facts->nodes * has->lane) +
           (facts->bytes / lanes + 1) * has->slice;
}

bool cf_memory_suffices(const struct cf_choice *choice, const struct cf_facts *facts) {
    return facts->bytes <= 2 * choice->measured ||
           cf_memory_estimate(choice, facts) <= cf_runtime.memory;
}
