/*
 * The timing driver: mpirun -n 8 collforge-driver --cases FILE --output FILE
 *
 * Every rank reads the same command line and gets the same cases from rank 0, so all ranks decide
 * alike. Only rank 0 prints.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/runtime.h"
#include "bench.h"
#include "comm/under_way.h"
#include "options.h"
#include "parts.h"
#include "place/layout.h"
#include "place/topology.h"
#include "report.h"
#include "start/start.h"

/* The text of a file, terminated; NULL with errno set if it cannot be read. */
static char *read_file(const char *path, int64_t *length) {
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t used = 0, got = 0;
    bool good = false;

    if (file == NULL) {
        return NULL;
    }
    do {
        text = xrealloc(text, used + 65536 + 1);
        got = fread(text + used, 1, 65536, file);
        used += got;
    } while (got > 0);
    good = !ferror(file);
    text[used] = '\0';
    *length = (int64_t)used;
    fclose(file);
    if (good) {
        return text;
    }
    free(text);
    return NULL;
}

/* The cases, on all ranks; NULL after a message if the file cannot be read. */
static char *share_cases(const struct bench *bench) {
    int64_t length = -1;
    char *text = NULL;

    if (bench->rank == 0) {
        text = read_file(bench->options.cases, &length);
        if (text == NULL) {
            fprintf(stderr, "collforge-driver: cannot read %s: %s\n", bench->options.cases,
                    strerror(errno));
        }
    }
    must(PMPI_Bcast(&length, 1, MPI_INT64_T, 0, bench->comm), "MPI_Bcast");
    if (length < 0) {
        return NULL;
    }
    if (bench->rank != 0) {
        text = xmalloc((size_t)length + 1);
    }
    for (int64_t at = 0; at <= length; at += 1 << 30) {
        const int64_t left = length + 1 - at;
        must(
            PMPI_Bcast(text + at, (int)(left < 1 << 30 ? left : 1 << 30), MPI_CHAR, 0, bench->comm),
            "MPI_Bcast");
    }
    return text;
}

/* Opens the output on rank 0; false on all ranks, after a message, if that fails. */
static bool open_output(const struct bench *bench, FILE **file) {
    int good = 1;

    if (bench->rank == 0) {
        const char *path = bench->options.output;
        *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
        good = *file != NULL;
        if (!good) {
            fprintf(stderr, "collforge-driver: cannot write %s: %s\n", path, strerror(errno));
        }
    }
    must(PMPI_Bcast(&good, 1, MPI_INT, 0, bench->comm), "MPI_Bcast");
    return good != 0;
}

/* Whether the job could be divided as --parts asks for, on all ranks alike. */
static bool choose_tested(struct bench *bench, char *why, size_t size) {
    bench->tested = (struct tested){MPI_COMM_WORLD, bench->rank, bench->size, bench->world, 0};
    cf_layout_name(&bench->world->layout, bench->layout, sizeof bench->layout);
    return bench->options.parts == NULL || parts_create(bench, why, size);
}

/*
 * Calls return MPI errors, to be reported with the case. Communicators that the runtime derives
 * from MPI_COMM_WORLD inherit the handler.
 */
static bool bench_create(struct bench *bench, char *why, size_t size) {
    must(PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    must(PMPI_Comm_dup(MPI_COMM_WORLD, &bench->comm), "MPI_Comm_dup");
    must(PMPI_Comm_rank(bench->comm, &bench->rank), "MPI_Comm_rank");
    must(PMPI_Comm_size(bench->comm, &bench->size), "MPI_Comm_size");
    /* A simulation's seconds are not those of alarm(), and SimGrid ends it when all ranks wait. */
    const bool simulated = cf_library.pass != NULL;
    watchdog_start(bench->rank, simulated ? 0 : bench->options.timeout);
    if (simulated) {
        bench->options.samples = 1; /* a call takes the same time again, to the nanosecond */
    }
    watchdog_step("setting up");
    must(cf_runtime_activate(), "cf_runtime_activate");
    if (bench->options.sockets) {
        must(cf_topology_find_sockets(), "cf_topology_find_sockets");
    }
    cf_runtime.memory = INT64_MAX; /* no memory limit for variants under test */
    cf_runtime.split_ops = true;   /* the driver's own ops bear it */
    must(cf_comm_get(MPI_COMM_WORLD, &bench->world), "cf_comm_get");
    if (bench->world == NULL) {
        fail(EXIT_TROUBLE, "MPI_COMM_WORLD has no layout");
    }
    must(types_create(), "datatypes and ops");
    clock_create(&bench->clock, bench->comm, bench->options.own_clocks);
    bench->data.device = bench->options.device;
    if (bench->options.device != DEVICE_NOWHERE && !device_start()) {
        fail(EXIT_TROUBLE, "--memory: there is no libcuda.so.1, or it has no device");
    }
    return choose_tested(bench, why, size);
}

static void bench_free(struct bench *bench) {
    data_free(&bench->data);
    parts_free(bench);
    clock_free(&bench->clock);
    must(types_free(), "datatypes and ops");
    must(PMPI_Comm_free(&bench->comm), "MPI_Comm_free");
}

/* Runs the plan; returns the number of wrong results. */
static int run_plan(struct bench *bench, struct plan *plan, FILE *file) {
    struct timing timing = {0};
    struct spent spent = {0};
    int failed = 0;

    record_job(file, bench);
    for (int i = 0; i < plan->ngroups; i++) {
        struct group *group = &plan->groups[i];
        const double begin = clock_local(&bench->clock);
        verify_group(bench, group);
        const double verified = clock_local(&bench->clock);
        if (!bench->options.verify_only) {
            plan_computation(bench, &group->problem);
            time_group(bench, group, bench->options.seed + (unsigned)i, &timing);
            bench->computation = 0;
        }
        spent.verifying += verified - begin;
        spent.timing += clock_local(&bench->clock) - verified;
        if (bench->options.costs) {
            cost_group(bench, group);
        }
        record_group(file, bench, group, &timing);
        for (int j = 0; j < group->ncandidates; j++) {
            failed += group->candidates[j].applicable && !group->candidates[j].verified;
        }
    }
    record_end(file, plan->ncases, failed, &spent);
    return failed;
}

/* Whether the nonblocking cases can be run, on all ranks alike. Collective. */
static bool can_overlap(const struct bench *bench, const struct plan *plan) {
    bool any = false;
    for (int i = 0; i < plan->ngroups; i++) {
        any = any || plan->groups[i].problem.nonblocking;
    }
    if (any && !cf_runtime.nonblocking) {
        cf_under_way_begin(true);
    }
    const bool good = !any || cf_runtime.nonblocking;
    if (!good && bench->rank == 0) {
        fprintf(stderr,
                "collforge-driver: nonblocking cases: this %s cannot call others when it makes "
                "progress; with COLLFORGE_NONBLOCKING=1 COLLFORGE_PROGRESS=thread it can\n",
                cf_library.title);
    }
    return good;
}

static enum exit_code run(struct bench *bench) {
    struct plan plan = {0};
    FILE *file = NULL;
    enum exit_code code = EXIT_USAGE;
    watchdog_step("reading the cases");
    char *text = share_cases(bench);

    if (text == NULL) {
        return EXIT_USAGE;
    }
    const struct setting setting = {
        bench->layout,       bench->tested.size,           &bench->tested.state->layout,
        bench->options.seed, (unsigned)bench->tested.part, !bench->options.verify_only};
    if (plan_read(&plan, text, &setting, bench->rank == 0) == 0 && can_overlap(bench, &plan) &&
        open_output(bench, &file)) {
        code = run_plan(bench, &plan, file) == 0 ? EXIT_VERIFIED : EXIT_WRONG;
    }
    if (file != NULL && file != stdout && fclose(file) != 0) {
        fail(EXIT_TROUBLE, "cannot write the output: %s", strerror(errno));
    }
    plan_free(&plan);
    free(text);
    return code;
}

int main(int argc, char **argv) {
    struct bench bench = {.comm = MPI_COMM_NULL};
    char why[256] = "";
    int rank = 0;
    enum exit_code code = EXIT_USAGE;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return EXIT_TROUBLE;
    }
    must(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    if (!options_read(argc, argv, &bench.options, why, sizeof why)) {
        if (rank == 0) {
            fprintf(stderr, "collforge-driver: %s; see --help\n", why);
        }
    } else if (bench.options.help) {
        if (rank == 0) {
            options_help(stdout);
        }
        code = EXIT_VERIFIED;
    } else {
        if (bench_create(&bench, why, sizeof why)) {
            code = run(&bench);
        } else if (rank == 0) {
            fprintf(stderr, "collforge-driver: --parts: %s\n", why);
        }
        watchdog_step("finishing");
        bench_free(&bench);
    }
    const int err = MPI_Finalize();
    watchdog_stop();
    return err == MPI_SUCCESS ? (int)code : EXIT_TROUBLE;
}
