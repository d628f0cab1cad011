/*
 * program BRING RUNTIME MODE...: collectives on host memory, and on device memory of the stub that the
 * library BRING loads. Says which mode begins, and "passed" when every result was right.
 *
 * late, thread: the runtime comes after calls on host memory; thread: by another thread
 * asserted: communicators whose info says what memory their buffers are in
 * early: odd ranks have a runtime, and device memory, from before MPI_Init on
 * broken: the last rank's copies fail
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 300, CALLS = 5 };

static struct {
    void *(*alloc)(size_t);
    void (*put)(void *, const void *, size_t);
    void (*get)(void *, const void *, size_t);
    long (*copies)(void);
    long (*asked)(void);
    int (*error)(void);
    void (*break_)(int);
} gpu;

static const char *bring_file, *runtime_file;
static int rank, size;
static int failures = 0;

static void check(bool good, const char *what) {
    if (!good) {
        printf("rank %d: wrong: %s\n", rank, what);
        failures++;
    }
}

static void find(void *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    if (address == NULL) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        abort();
    }
    memcpy(function, &address, sizeof address);
}

static void *load(void *unused) {
    void *(*bring)(const char *);
    (void)unused;
    find(dlopen(bring_file, RTLD_NOW), "bring", &bring);
    void *library = bring(runtime_file);
    find(library, "stub_alloc", &gpu.alloc);
    find(library, "stub_put", &gpu.put);
    find(library, "stub_get", &gpu.get);
    find(library, "stub_copies", &gpu.copies);
    find(library, "stub_asked", &gpu.asked);
    find(library, "stub_error", &gpu.error);
    find(library, "stub_break", &gpu.break_);
    return NULL;
}

/* Copies of vectors in the memory that the call is to get. */
struct buffers {
    bool device;
    double host[2][COUNT];
    double *given[2];
};

static void prepare(struct buffers *buffers, bool device) {
    buffers->device = device;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < COUNT; i++)
            buffers->host[side][i] = side == 0 ? rank + i : -1;
        buffers->given[side] = buffers->host[side];
        if (device) {
            buffers->given[side] = gpu.alloc(sizeof buffers->host[side]);
            gpu.put(buffers->given[side], buffers->host[side], sizeof buffers->host[side]);
        }
    }
}

static const double *result(struct buffers *buffers) {
    if (buffers->device)
        gpu.get(buffers->host[1], buffers->given[1], sizeof buffers->host[1]);
    return buffers->host[1];
}

static void reduce(MPI_Comm comm, bool device) {
    struct buffers buffers;
    for (int call = 0; call < CALLS; call++) {
        prepare(&buffers, device);
        const int err = MPI_Allreduce(buffers.given[0], buffers.given[1], COUNT, MPI_DOUBLE,
                                      MPI_SUM, comm);
        const double *sum = result(&buffers);
        bool good = err == MPI_SUCCESS;
        for (int i = 0; i < COUNT; i++)
            good = good && sum[i] == size * (size - 1) / 2.0 + size * (double)i;
        check(good, "allreduce");
    }
}

/* Blocks of the sum of both ranks' numbers, in the order of the numbers, and a gap behind each. */
static void exchange(MPI_Comm comm, bool device) {
    struct buffers buffers;
    int counts[16], displs[16];
    for (int other = 0, at = 0; other < size; other++) {
        counts[other] = rank + other;
        displs[other] = at;
        at += counts[other] + 1;
    }
    prepare(&buffers, device);
#if MPI_VERSION >= 4
    MPI_Count large_counts[16];
    MPI_Aint large_displs[16];
    for (int other = 0; other < size; other++) {
        large_counts[other] = counts[other];
        large_displs[other] = displs[other];
    }
    const int err = MPI_Alltoallv_c(buffers.given[0], large_counts, large_displs, MPI_DOUBLE,
                                    buffers.given[1], large_counts, large_displs, MPI_DOUBLE, comm);
#else
    const int err = MPI_Alltoallv(buffers.given[0], counts, displs, MPI_DOUBLE, buffers.given[1],
                                  counts, displs, MPI_DOUBLE, comm);
#endif
    const double *got = result(&buffers);
    bool good = err == MPI_SUCCESS;
    for (int other = 0; other < size; other++) {
        int theirs = 0; /* where this rank's block begins there */
        for (int i = 0; i < rank; i++)
            theirs += other + i + 1;
        for (int i = 0; i < counts[other]; i++)
            good = good && got[displs[other] + i] == other + theirs + i;
        good = good && got[displs[other] + counts[other]] == -1;
    }
    check(good, "alltoallv");
}

static void both(MPI_Comm comm, bool device) {
    reduce(comm, device);
    exchange(comm, device);
}

static void late(bool by_thread) {
    pthread_t thread;
    both(MPI_COMM_WORLD, false);
    if (!by_thread)
        load(NULL);
    else if (pthread_create(&thread, NULL, load, NULL) != 0 || pthread_join(thread, NULL) != 0)
        abort();
    both(MPI_COMM_WORLD, true);
    both(MPI_COMM_WORLD, false);
    both(MPI_COMM_WORLD, rank % 2 == 0);
    check(gpu.copies() > 0, "nothing was staged");
    check(gpu.error() == 0, "the runtime is left in another state");
}

/* How often the runtime is asked for the memory of host buffers in 2 * CALLS reductions. */
static long questions(MPI_Comm comm) {
    const long before = gpu.asked();
    reduce(comm, false);
    reduce(comm, false);
    return gpu.asked() - before;
}

static void asserted(void) {
    static const struct {
        const char *kinds;
        bool of_host;
    } cases[] = {{"system", true},
                 {"system,mpi:alloc_mem:win_allocate", true},
                 {"system,cuda:device", false},
                 {"mpich", false}};
    MPI_Comm comm;
    MPI_Info info;
    load(NULL);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", cases[0].kinds);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    check(questions(comm) == 0, "asked in a duplicate with info");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", cases[i].kinds);
        MPI_Comm_set_info(comm, info);
        check((questions(comm) == 0) == cases[i].of_host, cases[i].kinds);
        if (!cases[i].of_host)
            both(comm, true);
    }
    check(questions(MPI_COMM_WORLD) > 0, "asked nothing in a communicator without info");
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
}

static void check_broken(int err) {
    int class = MPI_SUCCESS;
    MPI_Error_class(err, &class);
    check(class == (rank == size - 1 ? MPI_ERR_OTHER : MPI_SUCCESS), "the error");
}

/* In the second call the last rank only gives data. */
static void broken(void) {
    struct buffers buffers;
    load(NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    prepare(&buffers, true);
    gpu.break_(rank == size - 1);
    check_broken(MPI_Allreduce(buffers.given[0], buffers.given[1], COUNT, MPI_DOUBLE, MPI_SUM,
                               MPI_COMM_WORLD));
    check_broken(MPI_Reduce(buffers.given[0], buffers.given[1], COUNT, MPI_DOUBLE, MPI_SUM, 0,
                            MPI_COMM_WORLD));
    gpu.break_(false);
    both(MPI_COMM_WORLD, true);
}

static void run(const char *mode, bool odd) {
    if (rank == 0)
        fprintf(stderr, "case: %s\n", mode);
    if (strcmp(mode, "early") == 0) {
        both(MPI_COMM_WORLD, odd);
        if (rank == 1)
            fprintf(stderr, "copies: %ld\n", gpu.copies());
    } else if (strcmp(mode, "asserted") == 0) {
        asserted();
    } else if (strcmp(mode, "broken") == 0) {
        broken();
    } else {
        late(strcmp(mode, "thread") == 0);
    }
}

int main(int argc, char **argv) {
    int provided = 0;
    if (argc < 4)
        return EXIT_FAILURE;
    bring_file = argv[1];
    runtime_file = argv[2];
    const char *name = getenv("OMPI_COMM_WORLD_RANK");
    name = name == NULL ? getenv("PMI_RANK") : name;
    const bool odd = name != NULL && atoi(name) % 2 != 0;
    if (strcmp(argv[3], "early") == 0 && odd)
        load(NULL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 3; i < argc; i++)
        run(argv[i], odd);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && failures == 0)
        printf("passed\n");
    MPI_Finalize();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
