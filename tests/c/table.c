/* The handle table alone: against a plain array, and with readers beside a writer. Exits 1 at the
 * first difference. */
#include <stdio.h>
#include <stdlib.h>

#include "base/handle_table.h"

#define check(holds)                                                                               \
    ((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds), exit(1)))

enum { KEYS = 3000, STEPS = 200000, FIXED = 1000, ROUNDS = 300 };

static struct cf_handle_table table = CF_HANDLE_TABLE_INITIALIZER;
static atomic_bool done;

static uintptr_t key_of(int i) {
    return 0x44000000u + 16 * (uintptr_t)i;
}

static size_t capacity(void) {
    return atomic_load(&table.slots)->mask + 1;
}

/* Random insertions, replacements and removals of more and more keys. */
static void against_array(void) {
    static uintptr_t expected[KEYS];
    uintptr_t value = 0;
    size_t live = 0;
    srand(7);
    for (int step = 0; step < STEPS; step++) {
        const int i = rand() % (1 + (int)((long)KEYS * step / STEPS));
        if (rand() % 3 > 0) {
            live += expected[i] == 0;
            expected[i] = 1 + (uintptr_t)rand();
            check(cf_handle_insert(&table, key_of(i), expected[i]));
        } else {
            live -= expected[i] != 0;
            expected[i] = 0;
            cf_handle_remove(&table, key_of(i));
        }
        const int j = rand() % KEYS;
        check(cf_handle_find(&table, key_of(j), &value) == (expected[j] != 0));
        check(expected[j] == 0 || value == expected[j]);
    }
    check(cf_handle_count(&table) == live);
    for (int i = 0; i < KEYS; i++)
        cf_handle_remove(&table, key_of(i));
    check(cf_handle_count(&table) == 0);
    for (size_t at = 0; at < capacity(); at++)
        check(atomic_load(&atomic_load(&table.slots)->slot[at].key) == CF_SLOT_EMPTY);
}

/* Handles that come and go need no more room than those alive at one time. */
static void comes_and_goes(void) {
    uintptr_t value = 0;
    const size_t before = capacity();
    for (int i = 0; i < STEPS; i++) {
        check(cf_handle_insert(&table, key_of(i), 5));
        if (i >= 10)
            cf_handle_remove(&table, key_of(i - 10));
        check(cf_handle_find(&table, key_of(i), &value) && value == 5);
        check(i < 10 || !cf_handle_find(&table, key_of(i - 10), &value));
    }
    check(capacity() == before);
}

/* 0 and 1 mark slots and are never found, even where such slots are. */
static void refuses_marks(void) {
    uintptr_t value = 0;
    check(!cf_handle_insert(&table, 0, 1) && !cf_handle_insert(&table, 1, 1));
    for (uintptr_t mark = 0; mark <= 1; mark++)
        check(!cf_handle_find(&table, mark, &value) && !cf_handle_glance(&table, mark, &value));
}

static void *read_fixed(void *unused) {
    (void)unused;
    uintptr_t value = 0;
    while (!atomic_load(&done))
        for (int i = 0; i < FIXED; i++)
            check(cf_handle_find(&table, key_of(i), &value) && value == (uintptr_t)i + 1);
    return NULL;
}

/* Handles that stay are found all the time while others make the table grow and shrink. */
static void beside_a_writer(void) {
    pthread_t readers[2];
    for (int i = 0; i < FIXED; i++)
        check(cf_handle_insert(&table, key_of(i), (uintptr_t)i + 1));
    for (int r = 0; r < 2; r++)
        check(pthread_create(&readers[r], NULL, read_fixed, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = FIXED; i < FIXED + 10 * round; i++)
            check(cf_handle_insert(&table, key_of(i), 9));
        for (int i = FIXED; i < FIXED + 10 * round; i++)
            cf_handle_remove(&table, key_of(i));
    }
    atomic_store(&done, true);
    for (int r = 0; r < 2; r++)
        check(pthread_join(readers[r], NULL) == 0);
}

int main(void) {
    uintptr_t value = 0;
    check(!cf_handle_find(&table, key_of(0), &value));
    cf_handle_remove(&table, key_of(0));
    against_array();
    refuses_marks();
    comes_and_goes();
    cf_handle_clear(&table);
    beside_a_writer();
    cf_handle_clear(&table);
    check(!cf_handle_find(&table, key_of(0), &value));
    puts("passed");
    return 0;
}
