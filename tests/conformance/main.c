/* Options, the list of checks, what is printed, and the watchdog. */
#include "conformance.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct program program = {.seed = 1, .seconds = 2, .skip = ","};
atomic_long program_calls, program_failures, program_skipped;

enum { MOST_PRINTED = 4, HANG_EXIT = 97 };

static unsigned limit_seconds = 60;
static const char *volatile current = "starting";
static struct engine *_Atomic engines = NULL;
static pthread_mutex_t engines_mutex = PTHREAD_MUTEX_INITIALIZER;

struct check {
    const char *name;
    void (*run)(void);
    bool usual; /* part of a run that names no checks */
    const char *what;
};

static const struct check checks[] = {
    {"data", check_data, true, "every root, count and type"},
    {"signatures", check_signatures, true, "other counts and types of one signature on each rank"},
    {"in_place", check_in_place, true, "MPI_IN_PLACE wherever it is legal"},
    {"insignificant", check_insignificant, true, "garbage where arguments are not significant"},
    {"irregular", check_irregular, true, "counts with zeros, displacements in any order"},
    {"operations", check_operations, true, "predefined and user-defined operations"},
    {"bits", check_bits, true, "reductions of doubles: the same bits again, and on all ranks"},
    {"communicators", check_communicators, true, "communicators of every kind and size"},
    {"handles", check_handles, true, "communicators and types freed, their handles used again"},
    {"intercommunicators", check_intercommunicators, true, "as PMPI does it; and merged"},
    {"barrier", check_barrier, true, "nobody leaves before everybody came"},
    {"messages", check_messages, true, "pending nonblocking and wildcard operations"},
    {"state", check_state, true, "error handlers, attributes, names: as the user left them"},
    {"attributes", check_attributes, true, "delete callbacks that call collectives in finalize"},
    {"threads", check_threads, false, "concurrent collectives (--thread=multiple)"},
    {"huge", check_huge, false, "count x size beyond 2^31"},
    {"errors", check_errors, false, "classes and handler calls of illegal arguments"},
    {"fuzz", check_fuzz, false, "random calls for --seconds=S, or --calls=N of them"},
};
enum { NCHECKS = sizeof checks / sizeof *checks };

/* ---- reporting ------------------------------------------------------------------------------ */

void die(const char *format, ...) {
    va_list values;
    va_start(values, format);
    (void)fprintf(stderr, "conformance: rank %d: ", program.rank);
    (void)vfprintf(stderr, format, values);
    (void)fprintf(stderr, " (in %s)\n", current);
    va_end(values);
    (void)fflush(NULL);
    _exit(2);
}

void *xmalloc(size_t bytes) {
    void *memory = malloc(bytes + 1);
    must(memory != NULL);
    return memory;
}

void fail(const char *text, const char *format, ...) {
    char detail[512];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(detail, sizeof detail, format, values);
    va_end(values);
    if (atomic_fetch_add(&program_failures, 1) < MOST_PRINTED)
        (void)printf("FAIL rank %d: %s: %s\n", program.rank, text, detail);
    (void)fflush(stdout);
}

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

unsigned draw(uint64_t *state, unsigned below) {
    *state += 1;
    return (unsigned)(mix(*state) % below);
}

/* ---- the watchdog --------------------------------------------------------------------------- */

static void say(const char *text) {
    ssize_t written = write(STDOUT_FILENO, text, strlen(text));
    (void)written;
}

static void say_where(const char *what) {
    char text[CASE_SIZE + 64];
    (void)snprintf(text, sizeof text, "\n%s rank %d: %s\n", what, program.rank,
                   (const char *)current);
    say(text);
    for (struct engine *engine = engines; engine != NULL; engine = engine->next) {
        if (engine == program.engine || engine->text[0] == '\0')
            continue;
        (void)snprintf(text, sizeof text, "%s rank %d, thread: %s\n", what, program.rank,
                       engine->text);
        say(text);
    }
}

/* Time is over. The pause lets the other ranks say where they are before this one ends the job. */
static void bark(int number) {
    (void)number;
    say_where("HANG");
    (void)sleep(1);
    _exit(HANG_EXIT);
}

static void crash(int number) {
    (void)signal(number, SIG_DFL);
    say_where("CRASH");
    (void)raise(number);
}

static void catch_signals(void) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = bark};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    action.sa_handler = crash;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        must(sigaction(fatal[i], &action, NULL) == 0);
}

void watch(struct engine *engine, const char *text) {
    if (engine == NULL || engine == program.engine)
        current = text;
    (void)alarm(limit_seconds);
}

void engine_register(struct engine *engine) {
    (void)pthread_mutex_lock(&engines_mutex);
    engine->next = engines;
    engines = engine;
    (void)pthread_mutex_unlock(&engines_mutex);
}

void engine_forget(struct engine *engine) {
    (void)pthread_mutex_lock(&engines_mutex);
    if (engines == engine) {
        engines = engine->next;
    } else {
        struct engine *before = engines;
        while (before->next != engine)
            before = before->next;
        before->next = engine->next;
    }
    (void)pthread_mutex_unlock(&engines_mutex);
}

/* ---- running -------------------------------------------------------------------------------- */

bool collective_wanted(const struct collective *collective) {
    return program.only == NULL || strcmp(program.only, collective->name) == 0;
}

struct place place_of(const char *name, MPI_Comm comm) {
    struct place place = {.name = name, .comm = comm};
    must(PMPI_Comm_rank(comm, &place.rank) == MPI_SUCCESS);
    must(PMPI_Comm_size(comm, &place.size) == MPI_SUCCESS);
    must(PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    return place;
}

/* Sums over the ranks; print on rank 0. */
static void summarize(const char *name, long totals[3]) {
    long mine[3] = {atomic_exchange(&program_calls, 0), atomic_exchange(&program_failures, 0),
                    atomic_exchange(&program_skipped, 0)};
    long all[3];
    watch(NULL, name);
    must(PMPI_Allreduce(mine, all, 3, MPI_LONG, MPI_SUM, program.control) == MPI_SUCCESS);
    for (int i = 0; i < 3; i++)
        totals[i] += all[i];
    if (program.rank == 0)
        (void)printf("check %s: %ld calls, %ld failures, %ld skipped\n", name, all[0], all[1],
                     all[2]);
    (void)fflush(stdout);
}

static int run_checks(char **names, int count, long totals[3]) {
    int run = 0;
    for (int i = 0; i < NCHECKS; i++) {
        bool wanted = count == 0 && checks[i].usual;
        for (int n = 0; n < count; n++)
            wanted = wanted || strcmp(names[n], checks[i].name) == 0;
        if (!wanted)
            continue;
        watch(NULL, checks[i].name);
        checks[i].run();
        summarize(checks[i].name, totals);
        run++;
    }
    return run;
}

static bool known(const char *name) {
    for (int i = 0; i < NCHECKS; i++)
        if (strcmp(name, checks[i].name) == 0)
            return true;
    return false;
}

struct options {
    const char *thread;   /* MPI_Init_thread at this level, else MPI_Init */
    const char *sessions; /* "only", "too", or NULL */
};

static const char *const levels[] = {"single", "funneled", "serialized", "multiple"};
static const int level_values[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                   MPI_THREAD_MULTIPLE};

/* A program that draws collectives until enough are wanted would not end. */
static const char *known_collective(const char *name) {
    for (int c = 0; c < ncollectives; c++)
        if (strcmp(name, collectives[c].name) == 0)
            return name;
    die("no collective %s", name);
}

/* The value of --name=value, or NULL. */
static const char *value_of(const char *argument, const char *name) {
    const size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                           : NULL;
}

static void list_checks(void) {
    for (int i = 0; i < NCHECKS; i++)
        (void)printf("%-20s %s%s\n", checks[i].name, checks[i].usual ? "" : "(if named) ",
                     checks[i].what);
    exit(EXIT_SUCCESS);
}

/* Moves the names of checks to the front of argv; returns their number. */
static int read_options(int argc, char **argv, struct options *options) {
    int count = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        if (strcmp(argv[i], "--list") == 0)
            list_checks();
        else if (strcmp(argv[i], "--nonblocking") == 0)
            program.nonblocking = true;
        else if ((value = value_of(argv[i], "--seed")) != NULL)
            program.seed = (unsigned)strtoul(value, NULL, 10);
        else if ((value = value_of(argv[i], "--seconds")) != NULL)
            program.seconds = strtod(value, NULL);
        else if ((value = value_of(argv[i], "--calls")) != NULL)
            program.calls = strtol(value, NULL, 10);
        else if ((value = value_of(argv[i], "--limit")) != NULL)
            limit_seconds = (unsigned)strtoul(value, NULL, 10);
        else if ((value = value_of(argv[i], "--collective")) != NULL)
            program.only = known_collective(value);
        else if ((value = value_of(argv[i], "--skip")) != NULL)
            program.skip = value;
        else if ((value = value_of(argv[i], "--thread")) != NULL)
            options->thread = value;
        else if ((value = value_of(argv[i], "--sessions")) != NULL)
            options->sessions = value;
        else if (known(argv[i]))
            argv[count++] = argv[i];
        else
            die("no option or check %s; --list names the checks", argv[i]);
    }
    return count;
}

/* What is in force, for whoever forced it. */
static void print_choices(void) {
    char name[256];
    for (int c = 0; c < ncollectives; c++)
        if (runtime_choice(program.world.comm, collectives[c].name, 4096, name, sizeof name))
            (void)printf("choice %s %s\n", collectives[c].name, name);
}

static void start(int *argc, char ***argv, const struct options *options) {
    const bool world = options->sessions == NULL || strcmp(options->sessions, "only") != 0;
    program.world_model = world;
    if (world && options->thread == NULL)
        must(MPI_Init(argc, argv) == MPI_SUCCESS);
    for (int i = 0; i < 4 && world && options->thread != NULL; i++)
        if (strcmp(options->thread, levels[i]) == 0)
            must(MPI_Init_thread(argc, argv, level_values[i], &program.provided) == MPI_SUCCESS);
    if (world)
        must(MPI_Query_thread(&program.provided) == MPI_SUCCESS);
    if (options->sessions != NULL)
        session_open();
    else
        program.world = place_of("world", MPI_COMM_WORLD);
    must(PMPI_Comm_dup(program.world.comm, &program.control) == MPI_SUCCESS);
    program.rank = program.world.rank;
    program.size = program.world.size;
    program.engine = engine_create();
    types_create();
    for (int i = 0; i < 4 && world && program.rank == 0; i++)
        if (level_values[i] == program.provided)
            (void)printf("provided: %s\n", levels[i]);
    if (program.rank == 0) {
        (void)printf("seed: %u\n", program.seed);
        print_choices();
    }
}

static void finish(const struct options *options) {
    watch(NULL, "finishing");
    types_free();
    engine_free(program.engine);
    program.engine = NULL;
    must(PMPI_Comm_free(&program.control) == MPI_SUCCESS);
    if (options->sessions != NULL)
        session_close();
    if (program.world_model)
        must(MPI_Finalize() == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    struct options options = {0};
    long totals[3] = {0};

    catch_signals();
    const int count = read_options(argc, argv, &options);
    watch(NULL, "starting");
    start(&argc, &argv, &options);
    const int run = run_checks(argv, count, totals);
    if (program.rank == 0)
        print_defects();
    if (program.rank == 0)
        (void)printf("conformance: %d checks, %ld calls, %ld failures\n", run, totals[0],
                     totals[1]);
    (void)fflush(stdout);
    finish(&options);
    attributes_finalized();
    /* What callbacks of check attributes found in MPI_Finalize has been printed. */
    totals[1] += program_failures;
    (void)alarm(0);
    return totals[1] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
