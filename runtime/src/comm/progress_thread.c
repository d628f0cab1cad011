#define _GNU_SOURCE /* pthread_attr_setaffinity_np */
#include "comm/progress_thread.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/coroutine.h"
#include "base/environment.h"
#include "base/log.h"

/* Between two polls on a core where the program computes, too. */
enum { REST_NANOSECONDS = 20000 };

static const char word[] = "thread";

static struct {
    pthread_t thread;
    sem_t wakes;
    bool (*poll)(void);
    bool there;
    bool rests;
    atomic_bool ends;
} self;

bool cf_progress_thread_wanted(void) {
    const char *text = cf_variable(CF_VARIABLE_PROGRESS);
    return text != NULL && strncmp(text, word, sizeof word - 1) == 0 &&
           (text[sizeof word - 1] == '\0' || text[sizeof word - 1] == ':');
}

/* The CORE-th of the CPUs that this process may use; a negative CORE counts from the last one.
 * False if there is no such. */
static bool find_core(const char *text, cpu_set_t *core) {
    cpu_set_t all;
    char *end = NULL;
    const long wanted = strtol(text, &end, 10);
    if (end == text || *end != '\0' || sched_getaffinity(0, sizeof all, &all) != 0) {
        return false;
    }
    long left = wanted < 0 ? CPU_COUNT(&all) + wanted : wanted;
    CPU_ZERO(core);
    for (int cpu = 0; cpu < CPU_SETSIZE && left >= 0; cpu++) {
        if (CPU_ISSET(cpu, &all) && left-- == 0) {
            CPU_SET(cpu, core);
            return true;
        }
    }
    return false;
}

static void *run(void *unused) {
    const struct timespec rest = {.tv_nsec = REST_NANOSECONDS};
    while (!atomic_load(&self.ends)) {
        (void)sem_wait(&self.wakes);
        while (self.poll()) {
            if (self.rests) {
                (void)nanosleep(&rest, NULL);
            }
        }
    }
    return unused;
}

/* The program's signals are for its own threads. */
static bool start(const pthread_attr_t *attributes) {
    sigset_t all;
    sigset_t former;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &former);
    const bool good = pthread_create(&self.thread, attributes, run, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &former, NULL);
    return good;
}

bool cf_progress_thread_begin(bool (*poll)(void), bool alone) {
    const char *text = cf_variable(CF_VARIABLE_PROGRESS);
    const char *colon = text == NULL ? NULL : strchr(text, ':');
    pthread_attr_t attributes;
    cpu_set_t core;
    int level = MPI_THREAD_SINGLE;
    if (!cf_progress_thread_wanted()) {
        if (text != NULL) {
            cf_warn("COLLFORGE_PROGRESS='%.80s' is neither thread nor thread:CORE: ignored", text);
        }
        return false;
    }
    if (PMPI_Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE) {
        cf_warn(
            "COLLFORGE_PROGRESS is ignored: the MPI library grants no MPI_THREAD_MULTIPLE, or "
            "COLLFORGE_NONBLOCKING is not set on every rank");
        return false;
    }
    if (colon != NULL && !find_core(colon + 1, &core)) {
        cf_warn("COLLFORGE_PROGRESS=%.80s: this process has no such core; any of its cores", text);
        colon = NULL;
    }
    self.poll = poll;
    self.rests = colon == NULL && !alone;
    atomic_store(&self.ends, false);
    if (sem_init(&self.wakes, 0, 0) != 0 || pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setstacksize(&attributes, CF_STACK);
    if (colon != NULL) {
        (void)pthread_attr_setaffinity_np(&attributes, sizeof core, &core);
    }
    self.there = start(&attributes);
    (void)pthread_attr_destroy(&attributes);
    if (!self.there) {
        cf_warn("COLLFORGE_PROGRESS is ignored: no thread could be started");
    }
    return self.there;
}

void cf_progress_thread_wake(void) {
    if (self.there) {
        (void)sem_post(&self.wakes);
    }
}

void cf_progress_thread_end(void) {
    if (self.there) {
        atomic_store(&self.ends, true);
        cf_progress_thread_wake();
        (void)pthread_join(self.thread, NULL);
        (void)sem_destroy(&self.wakes);
        self.there = false;
    }
}
