#include "report.h"

#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *volatile step = NULL;
static int limit = 0;
static char prefix[64];

/* Gives the launcher time to forward the last output before it ends the job. */
static void let_through(void) {
    const struct timespec moment = {.tv_nsec = 200 * 1000 * 1000};
    (void)nanosleep(&moment, NULL);
}

void fail(enum exit_code code, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "collforge-driver: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    let_through();
    PMPI_Abort(MPI_COMM_WORLD, code);
    exit(code);
}

void must(int err, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (err == MPI_SUCCESS) {
        return;
    }
    if (PMPI_Error_string(err, text, &length) != MPI_SUCCESS) {
        text[0] = '\0';
    }
    fail(EXIT_TROUBLE, "%s: %s", what, text);
}

void *xmalloc(size_t size) {
    return xrealloc(NULL, size);
}

void *xrealloc(void *memory, size_t size) {
    void *grown = realloc(memory, size > 0 ? size : 1);
    if (grown == NULL) {
        fail(EXIT_TROUBLE, "no memory for %zu bytes: fewer ranks or smaller cases", size);
    }
    return grown;
}

/* Async-signal-safe output of "collforge-driver: rank R: MESSAGE in STEP". */
static void say(const char *message) {
    char line[1024];
    size_t used = 0;
    const char *const parts[] = {prefix, message, step == NULL ? "(no case)" : step, "\n"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (const char *c = parts[i]; *c != '\0' && used < sizeof line - 1; c++) {
            line[used++] = *c;
        }
    }
    line[used - 1] = '\n';
    if (write(STDERR_FILENO, line, used) < 0) {
        _exit(EXIT_HANG);
    }
}

/*
 * PMPI_Abort is not safe in a signal handler: the hanging call may hold MPI's locks. mpirun ends
 * the job when a process exits without MPI_Finalize.
 */
static void on_alarm(int signal) {
    (void)signal;
    say("no end, within the time limit, of ");
    let_through();
    _exit(EXIT_HANG);
}

static void on_crash(int signal) {
    say(signal == SIGABRT  ? "abort in "
        : signal == SIGFPE ? "floating point exception in "
                           : "bad memory access in ");
    let_through();
    raise(signal); /* SA_RESETHAND: this is the default action */
}

void watchdog_start(int rank, int timeout) {
    const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    struct sigaction action;

    snprintf(prefix, sizeof prefix, "collforge-driver: rank %d: ", rank);
    limit = timeout;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_alarm;
    if (sigaction(SIGALRM, &action, NULL) != 0) {
        fail(EXIT_TROUBLE, "no handler for SIGALRM");
    }
    action.sa_handler = on_crash;
    action.sa_flags = (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (sigaction(crashes[i], &action, NULL) != 0) {
            fail(EXIT_TROUBLE, "no handler for signal %d", crashes[i]);
        }
    }
}

void watchdog_step(const char *what) {
    step = what;
    alarm((unsigned)limit);
}

void watchdog_stop(void) {
    alarm(0);
    step = NULL;
}
