/*
 * Runs programs one after the other in one launch, each a shared object compiled with suite.h:
 *   suite single|multiple PROGRAM WORD... [, PROGRAM WORD...]...
 * Says on both streams which one begins. Each is loaded anew, so its variables have their first values.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;

/* All ranks write to the streams of rank 0. From streams of their own, the launcher may forward what a rank wrote in one
 * case only after the name of the next one. */
static void share_streams(void) {
    int process = (int)getpid();

    PMPI_Bcast(&process, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int stream = STDOUT_FILENO; stream <= STDERR_FILENO && rank > 0; stream++) {
        char path[64] = "";
        snprintf(path, sizeof path, "/proc/%d/fd/%d", process, stream);
        const int shared = open(path, O_WRONLY | O_NOCTTY);
        if (shared < 0 || dup2(shared, stream) < 0)
            perror(path);
        close(shared);
    }
    PMPI_Barrier(MPI_COMM_WORLD);
}

static void begin(const char *program, int nwords, char **words) {
    FILE *const streams[] = {stdout, stderr};

    PMPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2 && rank == 0; i++) {
        fprintf(streams[i], "case: %s", strrchr(program, '/') + 1);
        for (int word = 1; word < nwords; word++)
            fprintf(streams[i], " %s", words[word]);
        fputs("\n", streams[i]);
        fflush(streams[i]);
    }
    PMPI_Barrier(MPI_COMM_WORLD);
}

static void run(int nwords, char **words, int is_last) {
    int (*program)(int, char **) = NULL;
    void *library = NULL;

    begin(words[0], nwords, words);
    library = dlopen(words[0], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    *(void **)&program = dlsym(library, "case_main");
    const int code = program(nwords, words);
    if (code != 0)
        printf("rank %d: ended with %d\n", rank, code);
    fflush(stdout);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (!is_last) /* whose callbacks MPI_Finalize may call */
        dlclose(library);
}

int main(int argc, char **argv) {
    int provided = MPI_THREAD_SINGLE;

    if (argc > 1 && strcmp(argv[1], "multiple") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    share_streams();
    for (int first = 2, last = 0; first < argc; first = last + 1) {
        for (last = first; last < argc && strcmp(argv[last], ",") != 0; last++)
            continue;
        if (last < argc)
            argv[last] = NULL;
        run(last - first, &argv[first], last >= argc);
    }
    return MPI_Finalize();
}
