/*
 * A hash table from MPI handles to pointers or sizes, made for looking up: a lookup takes no lock
 * and makes no call, so that it can stand in front of every collective.
 *
 * Open addressing with linear probing. Readers are safe beside one writer because a slot's value is
 * stored before its key, and because a thread only looks for handles that are alive throughout its
 * call: a key that disappears, or a slot that is taken over, under its eyes is never the one it
 * looks for.
 */
#ifndef COLLFORGE_HANDLE_TABLE_H_INCLUDED
#define COLLFORGE_HANDLE_TABLE_H_INCLUDED

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys that are no handle of any MPI library. */
enum { CF_SLOT_EMPTY = 0, CF_SLOT_REMOVED = 1 };

struct cf_handle_slot {
    _Atomic uintptr_t key;
    _Atomic uintptr_t value;
};

struct cf_handle_slots {
    struct cf_handle_slots
        *older; /* outgrown, but a reader may still be in it; freed with the table */
    size_t mask;
    struct cf_handle_slot slot[];
};

struct cf_handle_table {
    _Atomic(struct cf_handle_slots *) slots;
    pthread_mutex_t mutex; /* held by writers */
    size_t live;
};

#define CF_HANDLE_TABLE_INITIALIZER {.mutex = PTHREAD_MUTEX_INITIALIZER}

/* Where probing for a key starts: bits from the middle of key x 2^64 / golden ratio. */
static inline size_t cf_handle_home(const struct cf_handle_slots *slots, uintptr_t key) {
    return (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & slots->mask;
}

/* Lock-free. False when the key is not there. */
static inline bool cf_handle_find(struct cf_handle_table *table, uintptr_t key, uintptr_t *value) {
    struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    if (slots == NULL)
        return false;
    size_t at = cf_handle_home(slots, key);
    for (size_t probed = 0; probed <= slots->mask; probed++, at = (at + 1) & slots->mask) {
        struct cf_handle_slot *slot = &slots->slot[at];
        const uintptr_t found = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (found == key) {
            *value = atomic_load_explicit(&slot->value, memory_order_relaxed);
            return key > CF_SLOT_REMOVED;
        }
        if (found == CF_SLOT_EMPTY)
            return false;
    }
    return false;
}

/* Lock-free, and looks only where probing starts: false also for a key that is elsewhere. Values
 * are not 0: that is what a slot without a key has, which keys 0 and 1 would find. */
static inline bool cf_handle_glance(const struct cf_handle_table *table, uintptr_t key,
                                    uintptr_t *value) {
    struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    if (slots == NULL)
        return false;
    struct cf_handle_slot *slot = &slots->slot[cf_handle_home(slots, key)];
    if (atomic_load_explicit(&slot->key, memory_order_acquire) != key)
        return false;
    *value = atomic_load_explicit(&slot->value, memory_order_relaxed);
    return *value != 0;
}

/* Enters the key or replaces its value. False when memory is out. */
bool cf_handle_insert(struct cf_handle_table *table, uintptr_t key, uintptr_t value);
/* Nothing happens when the key is not there. */
void cf_handle_remove(struct cf_handle_table *table, uintptr_t key);
/* Nothing happens where the key is not there or has another value by now. */
void cf_handle_remove_if(struct cf_handle_table *table, uintptr_t key, uintptr_t value);
/* The number of keys in the table. */
size_t cf_handle_count(struct cf_handle_table *table);
/* Empties the table and frees its memory; no other thread may be in it. */
void cf_handle_clear(struct cf_handle_table *table);

#endif
