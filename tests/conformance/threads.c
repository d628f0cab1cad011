/* Concurrent collectives, each thread on communicators of its own. */
#include "conformance.h"

#include <pthread.h>

enum { THREADS = 3, CALLS = 240, LIFETIME = 40 };

struct worker {
    pthread_t thread;
    unsigned number;
    MPI_Comm parent;
};

/* Random calls on the parent and on communicators that this thread makes and frees meanwhile. */
static void *work(void *argument) {
    const struct worker *worker = argument;
    struct engine *engine = engine_create();
    const struct place own = place_of("of_thread", worker->parent);
    uint64_t state = mix(program.seed) + mix(worker->number);
    for (int i = 0; i < CALLS; i += LIFETIME) {
        MPI_Comm comm = MPI_COMM_NULL;
        must(MPI_Comm_split(worker->parent, i / LIFETIME % 2 == 0 ? 0 : own.rank % 2, -own.rank,
                            &comm) == MPI_SUCCESS);
        const struct place split = place_of("split_of_thread", comm);
        for (int n = 0; n < LIFETIME; n++) {
            const struct collective *collective =
                &collectives[draw(&state, (unsigned)ncollectives)];
            const struct call call =
                random_call(collective, n % 2 == 0 ? &own : &split, &state, 1 << 11);
            if (collective_wanted(collective))
                (void)verify(engine, &call);
        }
        must(MPI_Comm_free(&comm) == MPI_SUCCESS);
    }
    engine_free(engine);
    return NULL;
}

void check_threads(void) {
    struct worker workers[THREADS];
    if (program.provided < MPI_THREAD_MULTIPLE) {
        panel(program.engine, &program.world, 2, 5);
        return;
    }
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t].number = t;
        must(MPI_Comm_dup(program.world.comm, &workers[t].parent) == MPI_SUCCESS);
    }
    watch(NULL, "threads");
    for (unsigned t = 0; t < THREADS; t++)
        must(pthread_create(&workers[t].thread, NULL, work, &workers[t]) == 0);
    for (unsigned t = 0; t < THREADS; t++)
        must(pthread_join(workers[t].thread, NULL) == 0);
    for (unsigned t = 0; t < THREADS; t++)
        must(MPI_Comm_free(&workers[t].parent) == MPI_SUCCESS);
}
