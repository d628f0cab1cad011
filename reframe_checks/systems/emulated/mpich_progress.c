/*
 * Part of the emulation of a cluster, to be preloaded into MPICH's ranks there. It changes when
 * MPICH 4.0 (ch4:ucx) lets its transport, UCX, work on messages ("progress"):
 *
 * - Ranks share a few cores, and MPICH never yields while it waits. A rank that does not get on
 *   sleeps. (sched_yield, or sleeping after 5 to 50 idle polls, did not help.)
 * - MPI_Finalize closes the connections and then waits for the others in a barrier of the process
 *   manager, without progress. The others may need some to close theirs, and hang; over TCP every
 *   second run did. So there is progress in that barrier. (Later versions of MPICH have no barrier
 *   after the closing: their pull request 6596.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { IDLE_POLLS = 200, SLEEP_NANOSECONDS = 20000 };

unsigned ucp_worker_progress(void *worker);
void ucp_worker_destroy(void *worker);
void *ucp_disconnect_nb(void *endpoint);

static void *_Atomic last_worker = NULL;
static _Atomic bool closing = false;

static void pause_briefly(void) {
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = SLEEP_NANOSECONDS};
    (void)nanosleep(&pause, NULL);
}

/* UCX's own function. (RTLD_NEXT would not find it under Python, which loads libraries with
 * RTLD_LOCAL.) */
static void *find(const char *name) {
    void *ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    void *function = ucp == NULL ? NULL : dlsym(ucp, name);
    if (function == NULL) {
        (void)fprintf(stderr, "collforge: %s is not in the UCX of this process\n", name);
        abort();
    }
    return function;
}

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*_Atomic original)(void *) = NULL;
    static _Thread_local int idle_polls = 0;

    if (original == NULL) {
        original = (unsigned (*)(void *))find("ucp_worker_progress");
    }
    last_worker = worker;
    const unsigned events = original(worker);
    if (events != 0) {
        idle_polls = 0;
    } else if (idle_polls < IDLE_POLLS) {
        idle_polls++;
    } else {
        pause_briefly();
    }
    return events;
}

void *ucp_disconnect_nb(void *endpoint) {
    closing = true;
    return ((void *(*)(void *))find("ucp_disconnect_nb"))(endpoint);
}

void ucp_worker_destroy(void *worker) {
    last_worker = NULL;
    ((void (*)(void *))find("ucp_worker_destroy"))(worker);
}

/* MPICH's wait for the process manager, among others. */
ssize_t read(int file, void *buffer, size_t size) {
    if (closing && last_worker != NULL) {
        const char *manager = getenv("PMI_FD");
        struct pollfd readable = {.fd = file, .events = POLLIN};
        while (manager != NULL && atoi(manager) == file && poll(&readable, 1, 0) == 0) {
            (void)ucp_worker_progress(last_worker);
            pause_briefly();
        }
    }
    return syscall(SYS_read, file, buffer, size);
}
