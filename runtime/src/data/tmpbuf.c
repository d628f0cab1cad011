#include "data/tmpbuf.h"

#include <stdlib.h>

#include "base/log.h"

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
        /* realloc would copy contents that nobody needs. */
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
    for (int slot = 0; slot < CF_TMPBUF_SLOTS; slot++) {
        give_back(tmpbufs, slot);
    }
}
