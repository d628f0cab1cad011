#include "base/handle_table.h"

#include <stdlib.h>

enum { INITIAL_BITS = 7 };

static uintptr_t key_at(struct cf_handle_slots *slots, size_t at) {
    return atomic_load_explicit(&slots->slot[at].key, memory_order_relaxed);
}

static void set_key(struct cf_handle_slots *slots, size_t at, uintptr_t key) {
    atomic_store_explicit(&slots->slot[at].key, key, memory_order_release);
}

/* The key's slot, or else the first free one. One exists, because at most half of the slots are
 * live. */
static size_t slot_for(struct cf_handle_slots *slots, uintptr_t key) {
    size_t at = cf_handle_home(slots, key);
    size_t removed = SIZE_MAX;
    for (size_t probed = 0; probed <= slots->mask; probed++, at = (at + 1) & slots->mask) {
        const uintptr_t found = key_at(slots, at);
        if (found == key) {
            return at;
        }
        if (found == CF_SLOT_REMOVED && removed == SIZE_MAX) {
            removed = at;
        }
        if (found == CF_SLOT_EMPTY) {
            return removed == SIZE_MAX ? at : removed;
        }
    }
    return removed;
}

static void fill(struct cf_handle_slots *slots, size_t at, uintptr_t key, uintptr_t value) {
    atomic_store_explicit(&slots->slot[at].value, value, memory_order_relaxed);
    set_key(slots, at, key);
}

/* Doubles the table. The new slots are complete before any reader sees them. */
static bool grow(struct cf_handle_table *table) {
    struct cf_handle_slots *old = atomic_load_explicit(&table->slots, memory_order_relaxed);
    const size_t capacity = old == NULL ? (size_t)1 << INITIAL_BITS : 2 * (old->mask + 1);
    struct cf_handle_slots *new = calloc(1, sizeof *new + capacity * sizeof new->slot[0]);
    if (new == NULL) {
        return false;
    }
    new->older = old;
    new->mask = capacity - 1;
    for (size_t at = 0; old != NULL && at <= old->mask; at++) {
        const uintptr_t key = key_at(old, at);
        if (key != CF_SLOT_EMPTY && key != CF_SLOT_REMOVED) {
            fill(new, slot_for(new, key), key,
                 atomic_load_explicit(&old->slot[at].value, memory_order_relaxed));
        }
    }
    atomic_store_explicit(&table->slots, new, memory_order_release);
    return true;
}

static bool is_full(struct cf_handle_table *table) {
    struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    return slots == NULL || 2 * (table->live + 1) > slots->mask + 1;
}

bool cf_handle_insert(struct cf_handle_table *table, uintptr_t key, uintptr_t value) {
    if (key == CF_SLOT_EMPTY || key == CF_SLOT_REMOVED) {
        return false;
    }
    (void)pthread_mutex_lock(&table->mutex);
    const bool room = !is_full(table) || grow(table);
    if (room) {
        struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
        const size_t at = slot_for(slots, key);
        table->live += key_at(slots, at) != key;
        fill(slots, at, key, value);
    }
    (void)pthread_mutex_unlock(&table->mutex);
    return room;
}

/*
 * A removed slot must not end probing, unless the next slot is empty: then no key was probed past
 * it. It is marked empty then, as are the removed slots before it. Otherwise a table in which
 * handles come and go would fill up with removed slots.
 */
static void take_out(struct cf_handle_table *table, uintptr_t key, const uintptr_t *only) {
    (void)pthread_mutex_lock(&table->mutex);
    struct cf_handle_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
    uintptr_t value;
    if (slots != NULL && cf_handle_find(table, key, &value) && (only == NULL || value == *only)) {
        size_t at = slot_for(slots, key);
        set_key(slots, at, CF_SLOT_REMOVED);
        atomic_store_explicit(&slots->slot[at].value, 0, memory_order_relaxed);
        table->live--;
        if (key_at(slots, (at + 1) & slots->mask) == CF_SLOT_EMPTY) {
            for (; key_at(slots, at) == CF_SLOT_REMOVED; at = (at - 1) & slots->mask) {
                set_key(slots, at, CF_SLOT_EMPTY);
            }
        }
    }
    (void)pthread_mutex_unlock(&table->mutex);
}

void cf_handle_remove(struct cf_handle_table *table, uintptr_t key) {
    take_out(table, key, NULL);
}

void cf_handle_remove_if(struct cf_handle_table *table, uintptr_t key, uintptr_t value) {
    take_out(table, key, &value);
}

size_t cf_handle_count(struct cf_handle_table *table) {
    (void)pthread_mutex_lock(&table->mutex);
    const size_t live = table->live;
    (void)pthread_mutex_unlock(&table->mutex);
    return live;
}

void cf_handle_clear(struct cf_handle_table *table) {
    (void)pthread_mutex_lock(&table->mutex);
    struct cf_handle_slots *slots = atomic_exchange(&table->slots, NULL);
    table->live = 0;
    (void)pthread_mutex_unlock(&table->mutex);
    while (slots != NULL) {
        struct cf_handle_slots *older = slots->older;
        free(slots);
        slots = older;
    }
}
