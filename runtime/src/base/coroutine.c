#define _GNU_SOURCE /* MAP_STACK */
#include "base/coroutine.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/library.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

/* Pages that are not touched take no memory. Short stacks where many are in use, or where a limit
 * counts addresses. */
enum { SHORT_STACK = 512 << 10, MOST_KEPT = 16 };

struct cf_coroutine {
    ucontext_t own, resumer;
    struct cf_coroutine *next; /* of those that are kept */
    void (*body)(void *);
    void *argument;
    bool (*has_come)(void *); /* NULL: it waits for nothing */
    void *what;
    bool ended;
    MPI_Request request;
    void *fake, *bottom; /* of the address sanitizer: of this stack, and the resumer's */
    size_t size;
    void *mapped;
    size_t stack; /* bytes, above a page that is never accessible */
};

_Atomic int cf_coroutines;
static _Thread_local struct cf_coroutine *running;

/* Ended ones, whose stacks are used again. */
static struct {
    pthread_mutex_t mutex;
    struct cf_coroutine *first;
    int n;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Not inlined: a compiler may keep the address of a thread's variable beyond a switch, after which
 * another thread may run. */
static __attribute__((noinline)) struct cf_coroutine *current(void) {
    return running;
}

static __attribute__((noinline)) void set_current(struct cf_coroutine *coroutine) {
    running = coroutine;
}

#if defined(__SANITIZE_ADDRESS__)
static void leave(void **keep, const void *bottom, size_t size) {
    __sanitizer_start_switch_fiber(keep, bottom, size);
}
static void arrive(void *kept_stack, struct cf_coroutine *from) {
    __sanitizer_finish_switch_fiber(kept_stack, from == NULL ? NULL : (const void **)&from->bottom,
                                    from == NULL ? NULL : &from->size);
}
#else
#define leave(keep, bottom, size) ((void)0)
#define arrive(kept_stack, from) ((void)0)
#endif

static char *stack_of(struct cf_coroutine *self) {
    return (char *)self->mapped + sysconf(_SC_PAGESIZE);
}

/* Returns in cf_coroutine_resume's thread. */
static void switch_back(struct cf_coroutine *self) {
    leave(self->ended ? NULL : &self->fake, self->bottom, self->size);
    (void)swapcontext(&self->own, &self->resumer);
    arrive(self->fake, self);
}

static void run(unsigned high, unsigned low) {
    struct cf_coroutine *self = (struct cf_coroutine *)(uintptr_t)((uint64_t)high << 32 | low);
    arrive(NULL, self);
    self->body(self->argument);
    self->ended = true;
    switch_back(self);
}

static struct cf_coroutine *take_kept(void) {
    (void)pthread_mutex_lock(&kept.mutex);
    struct cf_coroutine *found = kept.first;
    if (found != NULL) {
        kept.first = found->next;
        kept.n--;
    }
    (void)pthread_mutex_unlock(&kept.mutex);
    return found;
}

/* The page below the stack is never accessible: a stack that is too small ends in a fault there,
 * and overwrites nothing. */
static bool map_stack(struct cf_coroutine *self, size_t stack) {
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    self->stack = stack;
    self->mapped = mmap(NULL, guard + stack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (self->mapped == MAP_FAILED) {
        return false;
    }
    (void)mprotect(self->mapped, guard, PROT_NONE);
    (void)madvise(self->mapped, guard + stack, MADV_NOHUGEPAGE); /* else 2 MiB would be touched */
    return true;
}

static bool addresses_are_limited(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

static struct cf_coroutine *allocate(void) {
    const bool longer = cf_coroutines < MOST_KEPT && !addresses_are_limited();
    struct cf_coroutine *self = calloc(1, sizeof *self);
    if (self != NULL && !(longer && map_stack(self, CF_STACK)) && !map_stack(self, SHORT_STACK)) {
        free(self);
        self = NULL;
    }
    return self;
}

static void put_away(struct cf_coroutine *self) {
    (void)pthread_mutex_lock(&kept.mutex);
    /* A short one would serve a lone call later. */
    const bool keep = kept.n < MOST_KEPT && (self->stack == CF_STACK || addresses_are_limited());
    if (keep) {
        self->next = kept.first;
        kept.first = self;
        kept.n++;
    }
    (void)pthread_mutex_unlock(&kept.mutex);
    if (!keep) {
        (void)munmap(self->mapped, (size_t)sysconf(_SC_PAGESIZE) + self->stack);
        free(self);
    }
}

/* A function of its own: getcontext returns once, but compilers think of setjmp. */
static __attribute__((noinline)) bool aim(struct cf_coroutine *self) {
    if (getcontext(&self->own) != 0) {
        return false;
    }
    self->own.uc_stack.ss_sp = stack_of(self);
    self->own.uc_stack.ss_size = self->stack;
    self->own.uc_link = NULL;
    const uint64_t address = (uintptr_t)self;
    makecontext(&self->own, (void (*)(void))run, 2, (unsigned)(address >> 32), (unsigned)address);
    return true;
}

struct cf_coroutine *cf_coroutine_make(void (*body)(void *), void *what) {
    struct cf_coroutine *self = take_kept();
    self = self == NULL ? allocate() : self;
    if (self == NULL) {
        return NULL;
    }
    if (!aim(self)) {
        put_away(self);
        return NULL;
    }
    self->body = body;
    self->argument = what;
    self->has_come = NULL;
    self->ended = false;
    self->request = MPI_REQUEST_NULL;
    cf_coroutines++;
    return self;
}

bool cf_coroutine_resume(struct cf_coroutine *self) {
    void *fake = NULL;
    if (self->has_come != NULL && !self->has_come(self->what)) {
        return false;
    }
    self->has_come = NULL;
    set_current(self);
    /* swapcontext sets the mask that it finds there: the thread keeps its own. */
    (void)pthread_sigmask(SIG_SETMASK, NULL, &self->own.uc_sigmask);
    leave(&fake, stack_of(self), self->stack);
    (void)swapcontext(&self->resumer, &self->own);
    arrive(fake, NULL);
    (void)fake;
    set_current(NULL);
    if (!self->ended) {
        return false;
    }
    cf_coroutines--;
    put_away(self);
    return true;
}

bool cf_suspend_long(bool (*has_come)(void *), void *what) {
    struct cf_coroutine *self = current();
    if (self == NULL) {
        return false;
    }
    if (!has_come(what)) {
        self->has_come = has_come;
        self->what = what;
        switch_back(self);
    }
    return true;
}

/* ---- calls of MPI that wait ------------------------------------------------------------------ */

MPI_Request *cf_coroutine_request(void) {
    struct cf_coroutine *self = current();
    return self == NULL ? NULL : &self->request;
}

static bool has_ended(void *what) {
    const struct cf_awaited *at = what;
    return (cf_library.has_completed == NULL || cf_library.has_completed(*at->request)) &&
           cf_has_ended(what);
}

int cf_coroutine_end(MPI_Request *request) {
    struct cf_awaited at = {.request = request};
    (void)cf_suspend_long(has_ended, &at);
    return at.err;
}

int cf_coroutine_end_request(int err) {
    return err == MPI_SUCCESS ? cf_coroutine_end(cf_coroutine_request()) : err;
}

int cf_call_exchange(struct cf_call_part out, struct cf_call_part in, int tag, MPI_Comm comm) {
    MPI_Request receive = MPI_REQUEST_NULL;
    if (cf_may_block()) {
        return PMPI_Sendrecv(out.data, out.count, out.type, out.rank, tag, in.data, in.count,
                             in.type, in.rank, tag, comm, MPI_STATUS_IGNORE);
    }
    int err = PMPI_Irecv(in.data, in.count, in.type, in.rank, tag, comm, &receive);
    if (err == MPI_SUCCESS) {
        err = cf_coroutine_end_request(
            PMPI_Isend(out.data, out.count, out.type, out.rank, tag, comm, cf_coroutine_request()));
        const int last = cf_coroutine_end(&receive);
        err = err == MPI_SUCCESS ? last : err;
    }
    return err;
}
