/* Scratch memory of the variants: a call allocates only when it needs more than any call before it
 * on its communicator. */
#include "cf.h"

#include <stdlib.h>

void *cf_tmpbuf(struct cf_tmpbufs *tmpbufs, int slot, size_t bytes) {
    if (tmpbufs->data[slot] == NULL || tmpbufs->capacity[slot] < bytes) {
        const size_t capacity = bytes > 0 ? bytes : 1;
        /* Not realloc: the old contents are worth nothing, and copying them would cost. */
        free(tmpbufs->data[slot]);
        tmpbufs->data[slot] = malloc(capacity);
        tmpbufs->capacity[slot] = tmpbufs->data[slot] == NULL ? 0 : capacity;
    }
    return tmpbufs->data[slot];
}

void cf_tmpbufs_free(struct cf_tmpbufs *tmpbufs) {
    for (int slot = 0; slot < CF_TMPBUF_SLOTS; slot++) {
        free(tmpbufs->data[slot]);
        tmpbufs->data[slot] = NULL;
        tmpbufs->capacity[slot] = 0;
    }
}
