/*
 * A hash table from MPI handles to pointers or sizes. A lookup takes no lock and makes no call,
 * because it precedes every collective.
 *
 * Open addressing with linear probing. Readers are safe beside one writer. A slot's value is stored
 * before its key. A thread only looks up handles that exist throughout its call, so a key that is
 * removed, or a slot that is reused, meanwhile is never the one it looks up.
 */
#ifndef COLLFORGE_HANDLE_TABLE_H_INCLUDED
#define COLLFORGE_HANDLE_TABLE_H_INCLUDED

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not handles in any MPI library. */
enum { CF_SLOT_EMPTY = 0, CF_SLOT_REMOVED = 1 };

struct cf_handle_slot {
    _Atomic uintptr_t key;
    _Atomic uintptr_t value;
};

struct cf_handle_slots {
    struct cf_handle_slots
        *older; /* outgrown; freed with the table, because a reader may still use it */
    size_t mask;
    struct cf_handle_slot slot[];
};

struct cf_handle_table {
    _Atomic(struct cf_handle_slots *) slots;
    pthread_mutex_t mutex; /* held by writers */
    size_t live;
};

#define CF_HANDLE_TABLE_INITIALIZER {.mutex = PTHREAD_MUTEX_INITIALIZER}

/* The slot where probing for a key starts: middle bits of key x 2^64 / golden ratio. */
static inline size_t cf_handle_home(const struct cf_handle_slots *slots, uintptr_t key) {
    return (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & slots->mask;
}

/* Lock-free. False if the key is not in the table. */
static inline bool cf_handle_find(struct cf_handle_table *table, uintptr_t key, uintptr_t *value) {
    struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    if (slots == NULL) {
        return false;
    }
    size_t at = cf_handle_home(slots, key);
    for (size_t probed = 0; probed <= slots->mask; probed++, at = (at + 1) & slots->mask) {
        struct cf_handle_slot *slot = &slots->slot[at];
        const uintptr_t found = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (found == key) {
            *value = atomic_load_explicit(&slot->value, memory_order_relaxed);
            return key > CF_SLOT_REMOVED;
        }
        if (found == CF_SLOT_EMPTY) {
            return false;
        }
    }
    return false;
}

/* Lock-free, and probes only the first slot: false also for a key in another slot. Values must not
 * be 0: slots without a key have value 0, and the keys 0 and 1 would find them. */
static inline bool cf_handle_glance(const struct cf_handle_table *table, uintptr_t key,
                                    uintptr_t *value) {
    struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    if (slots == NULL) {
        return false;
    }
    struct cf_handle_slot *slot = &slots->slot[cf_handle_home(slots, key)];
    if (atomic_load_explicit(&slot->key, memory_order_acquire) != key) {
        return false;
    }
    *value = atomic_load_explicit(&slot->value, memory_order_relaxed);
    return *value != 0;
}

/* Inserts the key or replaces its value. False when out of memory. */
bool cf_handle_insert(struct cf_handle_table *table, uintptr_t key, uintptr_t value);
/* Does nothing if the key is not in the table. */
void cf_handle_remove(struct cf_handle_table *table, uintptr_t key);
/* Does nothing unless the key has this value. */
void cf_handle_remove_if(struct cf_handle_table *table, uintptr_t key, uintptr_t value);
/* The number of keys in the table. */
size_t cf_handle_count(struct cf_handle_table *table);
/* Empties the table and frees its memory. No other thread may use it meanwhile. */
void cf_handle_clear(struct cf_handle_table *table);

#endif
