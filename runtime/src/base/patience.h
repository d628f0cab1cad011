/* Waiting for another process, which may need this process's core. */
#ifndef COLLFORGE_PATIENCE_H_INCLUDED
#define COLLFORGE_PATIENCE_H_INCLUDED

#include <sched.h>
#include <stdbool.h>

#include "base/coroutine.h"
#include "base/library.h"

/* Polls before a thread yields the CPU: the most and the least, and how many it makes now. Doubled
 * after what it awaits came in time, halved after it did not. */
struct cf_patience {
    int most, least, now;
};

/*
 * Polls until has_come(what). With more ranks than cores, the awaited rank may need this core;
 * MPI's own waits may keep it. A coroutine is suspended instead. yielded (or NULL) is called after
 * each yield. The functions are to be static, so that they become part of the loop.
 */
static inline void cf_poll(struct cf_patience *patience, bool (*has_come)(void *),
                           void (*yielded)(void *), void *what) {
    if (cf_suspend(has_come, what)) {
        return;
    }
    for (int polls = 0; polls < patience->now; polls++) {
        if (has_come(what)) {
            const int more = 2 * patience->now;
            patience->now = more < patience->most ? more : patience->most;
            return;
        }
    }
    const int fewer = patience->now / 2;
    patience->now = fewer > patience->least ? fewer : patience->least;
    while (!has_come(what)) {
        if (cf_library.pass != NULL) {
            cf_library.pass(1e-7);
        } else {
            (void)sched_yield();
        }
        if (yielded != NULL) {
            yielded(what);
        }
    }
}

#endif
