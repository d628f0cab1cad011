#define _GNU_SOURCE /* dladdr */
#include "base/threads.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the program's OpenMP runtime; NULL if it has none. */
#define OPENMP extern __attribute__((weak))
/* In GCC's, and in those that can stand for it: LLVM's and Intel's. */
OPENMP void GOMP_parallel(void (*work)(void *), void *argument, unsigned threads, unsigned flags);
/* In LLVM's and those that derive from it. */
typedef void kmpc_work(int32_t *thread, int32_t *of_team, ...);
OPENMP void __kmpc_fork_call(void *source, int32_t arguments, kmpc_work *work, ...);
OPENMP int omp_get_max_threads(void);
OPENMP int omp_get_num_procs(void);
OPENMP int omp_get_num_threads(void);
OPENMP int omp_get_thread_num(void);
OPENMP int omp_in_parallel(void);

static atomic_bool ended;

void cf_threads_end(void) {
    atomic_store(&ended, true);
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* What starts a team of the runtime whose omp_get_thread_num we ask. A process may have two
 * runtimes, whose names are bound to one or the other. */
enum entry { UNKNOWN, NONE, GOMP, KMPC };

static bool of_one_object(uintptr_t a, uintptr_t b) {
    Dl_info one, other;

    return a != 0 && b != 0 && dladdr((void *)a, &one) != 0 && dladdr((void *)b, &other) != 0 &&
           one.dli_fbase == other.dli_fbase;
}

static enum entry find_entry(void) {
    static atomic_int found = UNKNOWN;
    int entry = atomic_load_explicit(&found, memory_order_relaxed);

    if (entry == UNKNOWN) {
        const uintptr_t asked = (uintptr_t)omp_get_thread_num;
        const bool whole = of_one_object((uintptr_t)omp_get_num_threads, asked) &&
                           of_one_object((uintptr_t)omp_get_max_threads, asked) &&
                           of_one_object((uintptr_t)omp_get_num_procs, asked) &&
                           of_one_object((uintptr_t)omp_in_parallel, asked);
        entry = !whole                                              ? NONE
                : of_one_object((uintptr_t)GOMP_parallel, asked)    ? GOMP
                : of_one_object((uintptr_t)__kmpc_fork_call, asked) ? KMPC
                                                                    : NONE;
        atomic_store_explicit(&found, entry, memory_order_relaxed);
    }
    return (enum entry)entry;
}

bool cf_threads_are_there(void) {
    return find_entry() != NONE;
}

int cf_threads_allowed(void) {
    int level = MPI_THREAD_SINGLE;

    if (!cf_threads_are_there() || PMPI_Query_thread(&level) != MPI_SUCCESS ||
        level < MPI_THREAD_MULTIPLE) {
        return 1;
    }
    const int most = smaller(omp_get_max_threads(), omp_get_num_procs());
    return most > 1 ? most : 1;
}

/* How many threads are idle now. */
static int idle_threads(int wanted) {
    int is_main = 0;

    if (wanted < 2 || atomic_load(&ended) || !cf_threads_are_there() || omp_in_parallel() ||
        PMPI_Is_thread_main(&is_main) != MPI_SUCCESS || !is_main) {
        return 1;
    }
    return smaller(wanted, omp_get_max_threads());
}

struct team {
    int (*work)(void *argument, int i);
    void *argument;
    int n;
    int workers;
    /* The lowest i that failed and, in the lower 32 bits, its error: one word, so that no thread
     * sees the one without the other. The atomics also tell tools that do not know OpenMP what its
     * runtime guarantees: the threads see the caller's earlier stores, the caller sees theirs. */
    _Atomic int64_t failure;
    _Atomic int begun;
    _Atomic int done;
};

static int64_t failure_of(int i, int err) {
    return (int64_t)i << 32 | (uint32_t)err;
}

/* n: none */
static int failed(struct team *team) {
    return (int)(atomic_load(&team->failure) >> 32);
}

static void note(struct team *team, int i, int err) {
    const int64_t mine = failure_of(i, err);
    int64_t lowest = atomic_load(&team->failure);

    while (mine < lowest && !atomic_compare_exchange_weak(&team->failure, &lowest, mine)) {
    }
}

static void take_part(void *argument) {
    struct team *team = argument;

    (void)atomic_load_explicit(&team->begun, memory_order_acquire);
    const int step = smaller(team->workers, omp_get_num_threads());
    const int first = omp_get_thread_num();
    /* All below the failure still run: which error is reported does not depend on the threads'
     * speed. */
    for (int i = first; first < step && i < failed(team); i += step) {
        const int err = team->work(team->argument, i);

        if (err != MPI_SUCCESS) {
            note(team, i, err);
        }
    }
    (void)atomic_fetch_add_explicit(&team->done, 1, memory_order_release);
}

static void take_part_kmpc(int32_t *thread, int32_t *of_team, ...) {
    va_list arguments;

    (void)thread;
    va_start(arguments, of_team);
    take_part(va_arg(arguments, void *));
    va_end(arguments);
}

/* take_part in the whole team, as in a region of the program. A smaller one would end the threads
 * that are left over, and their threadprivate data. */
static void run_team(struct team *team) {
    /* ident_t: flags (2: called by compiled code), and where in the source */
    static struct {
        int32_t reserved, flags, reserved_too[2];
        const char *place;
    } source = {.flags = 2, .place = ";collforge;collforge;0;0;;"};

    if (find_entry() == GOMP) {
        GOMP_parallel(take_part, team, 0, 0);
    } else {
        __kmpc_fork_call(&source, 1, take_part_kmpc, team);
    }
}

int cf_threads_run(int (*work)(void *argument, int i), void *argument, int n, int threads) {
    const int idle = idle_threads(smaller(threads, n));
    int first = MPI_SUCCESS;

    if (idle == 1) {
        for (int i = 0; i < n && first == MPI_SUCCESS; i++) {
            first = work(argument, i);
        }
        return first;
    }
    struct team team = {
        .work = work, .argument = argument, .n = n, .workers = idle, .failure = failure_of(n, 0)};
    atomic_store_explicit(&team.begun, 1, memory_order_release);
    run_team(&team);
    (void)atomic_load_explicit(&team.done, memory_order_acquire);
    return failed(&team) < n ? (int)(uint32_t)atomic_load(&team.failure) : MPI_SUCCESS;
}
