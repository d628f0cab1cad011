/*
 * MPI_Init, MPI_Init_thread and MPI_Finalize. World rank 0 reads the environment and the database
 * (settings.c) and broadcasts them. All ranks then decide alike, even if the launcher sets the
 * environment on some of them only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cf.h"
#include "base/chain.h"
#include "base/environment.h"
#include "base/library.h"
#include "base/log.h"
#include "base/runtime.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "comm/learn.h"
#include "comm/observe.h"
#include "comm/progress_thread.h"
#include "comm/report.h"
#include "comm/under_way.h"
#include "comm/usage.h"
#include "data/sizes.h"
#include "device/gpu.h"
#include "node/shared_window.h"
#include "place/connect.h"
#include "place/topology.h"
#include "start/launcher.h"
#include "start/settings.h"
#include "start/start.h"
#include "start/unreached.h"
#include "winners/rules.h"

static bool activated = false;

/* Calls were to be observed or counted at the start. Equal on all ranks, also those that a tool
 * keeps in MPI_Init. */
static bool observes = false;
/* This rank tells what the library did for the job. */
static bool tells = false;

/* Broadcasts the winners of world rank 0. */
static bool share_winners(const struct cf_settings *settings, int rank,
                          struct cf_winners *winners) {
    const size_t bytes = (size_t)settings->nwinners * sizeof *winners->items;
    const size_t names = (size_t)settings->nlayouts * sizeof *winners->layouts;
    if (rank != 0) {
        winners->items = malloc(bytes + 1);
        winners->layouts = malloc(names + 1);
    }
    winners->count = settings->nwinners;
    winners->nlayouts = settings->nlayouts;
    return cf_all_agree(rank == 0 || (winners->items != NULL && winners->layouts != NULL)) &&
           PMPI_Bcast(winners->items, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS &&
           PMPI_Bcast(winners->layouts, (int)names, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
}

/* Collective over MPI_COMM_WORLD. */
static int activate(void) {
    if (activated) {
        return MPI_SUCCESS;
    }
    CF_TRY(cf_topology_start());
    int err = cf_types_start();
    if (err == MPI_SUCCESS) {
        err = cf_states_start();
    }
    activated = cf_all_agree(err == MPI_SUCCESS);
    if (!activated && err == MPI_SUCCESS) {
        err = MPI_ERR_OTHER;
    }
    return err;
}

int cf_runtime_activate(void) {
    cf_runtime.tuned_only = false;
    return activate();
}

/* Builds the state of MPI_COMM_WORLD, because duplicates inherit it. Many are made before its first
 * collective call. */
static void describe_world(void) {
    struct cf_state *state = NULL;
    int size = 0;
    if (PMPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS &&
        (cf_runtime.mode == CF_MODE_OBSERVED || cf_rules_any_for(size))) {
        (void)cf_state_of(MPI_COMM_WORLD, &state);
    }
}

/* On all ranks alike: false when one is out of memory. */
static bool start_rules(struct cf_winners *winners) {
    char name[CF_LAYOUT_NAME_SIZE];
    struct cf_layout world;
    /* The names are those of world rank 0, so all ranks look for sockets, or none. */
    bool good = !cf_winners_know_sockets(winners) || cf_topology_find_sockets() == MPI_SUCCESS;
    good = cf_rules_start(winners) && good;
    (void)cf_library.shared_folder(); /* looks functions up, as no collective may */
    if (good && cf_rules_know_parts()) {
        good = cf_layout_build(&world, MPI_COMM_WORLD) == MPI_SUCCESS;
        if (good && world.size > 0) {
            cf_layout_placement(&world, name, sizeof name);
            cf_rules_set_job(name);
        }
        cf_layout_free(&world);
    }
    return cf_all_agree(good);
}

/* After PMPI_Init, on all ranks that have the same library. The error handler of MPI_COMM_WORLD has
 * seen MPI errors before they are returned here. */
static void start(void) {
    struct cf_settings settings = {.memory = CF_USUAL_MEMORY};
    struct cf_winners winners = {0};
    int rank = 0;
    if (PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) {
        return;
    }
    if (rank == 0) {
        cf_settings_read(&settings, &winners);
    }
    if (PMPI_Bcast(&settings, (int)sizeof settings, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS) {
        settings.wanted = settings.pretended = 0;
    }
    cf_log_setup(settings.verbose);
    cf_runtime.memory = settings.memory;
    cf_runtime.guard = (enum cf_guard)settings.guard;
    cf_runtime.guard_after = settings.guard_after;
    cf_runtime.reproducible = settings.reproducible;
    cf_runtime.split_ops = settings.split_ops;
    cf_runtime.check_ops = settings.check_ops;
    tells = settings.tells && rank == 0;
    cf_runtime.counts = tells && settings.mode > CF_MODE_ON && settings.tuned;
    if (settings.pretended) {
        (void)cf_topology_start();
    }
    if (settings.wanted && settings.gpu_native && !cf_all_agree(!cf_gpu_is_here())) {
        if (rank == 0 && settings.reproducible) {
            cf_warn("COLLFORGE_REPRODUCIBLE is ignored beside COLLFORGE_GPU=native");
        }
        if (rank == 0) {
            cf_log(1, "a rank has a GPU runtime and COLLFORGE_GPU=native: native collectives");
        }
        settings.wanted = 0;
    }
    if (settings.wanted) {
        cf_unreached_find(rank, settings.nonblocking);
        const bool ready = share_winners(&settings, rank, &winners) && activate() == MPI_SUCCESS;
        const bool active = ready && start_rules(&winners);
        cf_runtime.mode = active ? (enum cf_mode)settings.mode : CF_MODE_OFF;
        observes = cf_runtime.mode > CF_MODE_ON;
        cf_runtime.tuned_only = active && cf_runtime.mode != CF_MODE_OBSERVED;
        cf_runtime.awaits_ends = active && (observes || cf_runtime.guard != CF_GUARD_OFF);
        cf_observe_setup(active && settings.profile, settings.nwinners > 0);
        if (active) {
            describe_world();
            cf_under_way_begin(settings.nonblocking);
            cf_report_start(settings.report_seconds, settings.report_signal, rank);
        }
        if (!active && rank == 0) {
            cf_warn("out of memory; native collectives");
        }
    }
    cf_winners_free(&winners);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static struct functions {
    int (*init)(int *, char ***);
    int (*init_thread)(int *, char ***, int, int *);
    int (*query_thread)(int *);
    int (*finalize)(void);
} next = {PMPI_Init, PMPI_Init_thread, PMPI_Query_thread, PMPI_Finalize};

/* MPI's own. Looked up when they are needed, as in base/chain.c. */
static const struct functions *next_pmpi(void) {
    static struct functions pmpi = {
        .init = PMPI_Init, .init_thread = PMPI_Init_thread, .finalize = PMPI_Finalize};
    cf_chain("PMPI_Init", &pmpi.init);
    cf_chain("PMPI_Init_thread", &pmpi.init_thread);
    cf_chain("PMPI_Finalize", &pmpi.finalize);
    return &pmpi;
}

__attribute__((constructor)) static void chain(void) {
    cf_chain("MPI_Init", &next.init);
    cf_chain("MPI_Init_thread", &next.init_thread);
    cf_chain("MPI_Query_thread", &next.query_thread);
    cf_chain("MPI_Finalize", &next.finalize);
}

static void stop_observing(void) {
    struct cf_state *world = NULL;
    if (observes && cf_state_of(MPI_COMM_WORLD, &world) != MPI_SUCCESS) {
        world = NULL;
    }
    if (observes) {
        cf_states_for_each(cf_observe_leave);
        cf_observe_finish(world);
    }
    if (tells) {
        cf_usage_tell(world == NULL ? NULL : world->layout_name);
    }
    cf_learn_end();
    observes = tells = cf_runtime.counts = false;
}

static void be_native(void) {
    cf_runtime.mode = CF_MODE_OFF;
    cf_runtime.tuned_only = cf_runtime.awaits_ends = cf_runtime.nonblocking = false;
}

/* On all ranks. Frees windows, for which the ranks of a node wait for each other. */
static void stop(void) {
    cf_report_stop();
    cf_under_way_end();
    stop_observing();
    be_native();
    cf_states_stop();
    cf_shared_stop();
    cf_types_stop();
    cf_topology_stop();
    cf_rules_stop();
    activated = false;
}

static int stop_before_the_end(MPI_Comm self, int keyval, void *value, void *extra) {
    (void)self;
    (void)keyval;
    (void)value;
    (void)extra;
    stop();
    return MPI_SUCCESS;
}

/*
 * MPI_Finalize deletes the attributes of MPI_COMM_SELF before all else, the last one first. A
 * program's callbacks there may still send messages, for which other ranks wait before they call
 * MPI_Finalize. So ours, which is set in MPI_Init, comes last.
 */
static void stop_at_the_end(void) {
    int keyval = MPI_KEYVAL_INVALID;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop_before_the_end, &keyval, NULL) !=
        MPI_SUCCESS) {
        return;
    }
    (void)PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    (void)PMPI_Comm_free_keyval(&keyval);
}

/*
 * Right after MPI's own MPI_Init. A tool behind this library may keep some ranks inside its
 * MPI_Init for good, and give the others another world.
 */
static void begin(void) {
    int initialized = 0;
    if (cf_library_is_ours() && PMPI_Initialized(&initialized) == MPI_SUCCESS && initialized) {
        cf_report_catch();
        stop_at_the_end();
        if (cf_presence_agree()) {
            start();
        }
    }
}

/*
 * Whether a tool behind this library shows the program another MPI_COMM_WORLD: a smaller one (its
 * other ranks may never come here), or the same ranks in another order, which some ranks cannot
 * see.
 */
static bool is_another_world(bool pmpi) {
    int (*comm_size)(MPI_Comm, int *) = PMPI_Comm_size;
    int (*comm_rank)(MPI_Comm, int *) = PMPI_Comm_rank;
    int own[2] = {0, 0};
    int shown[2] = {0, 0};
    cf_chain("MPI_Comm_size", &comm_size);
    cf_chain("MPI_Comm_rank", &comm_rank);
    const bool known = PMPI_Comm_size(MPI_COMM_WORLD, &own[0]) == MPI_SUCCESS &&
                       PMPI_Comm_rank(MPI_COMM_WORLD, &own[1]) == MPI_SUCCESS && !pmpi &&
                       comm_size(MPI_COMM_WORLD, &shown[0]) == MPI_SUCCESS &&
                       comm_rank(MPI_COMM_WORLD, &shown[1]) == MPI_SUCCESS;
    return known && own[0] != shown[0] ? true : !cf_all_agree(!known || own[1] == shown[1]);
}

/* Whether the environment asks for MPI_THREAD_MULTIPLE, with which collectives may use the threads
 * of an MPI+OpenMP program (threads.h), and the program can have it without harm. */
static bool wants_threads(void) {
    if (cf_variable_is_on(CF_VARIABLE_NONBLOCKING) && cf_progress_thread_wanted()) {
        return !cf_variable_is_on(CF_VARIABLE_DISABLE);
    }
    if (!cf_variable_is_on(CF_VARIABLE_THREAD_MULTIPLE)) {
        return false;
    }
    return strcmp(cf_variable(CF_VARIABLE_THREAD_MULTIPLE), "always") == 0 ||
           (cf_threads_are_there() && !cf_library.refuses_windows_of_threads &&
            !cf_variable_is_on(CF_VARIABLE_DISABLE) &&
            (cf_variable(CF_VARIABLE_DB) != NULL || cf_variable(CF_VARIABLE_FORCE) != NULL));
}

/*
 * MPI_Init and MPI_Init_thread, under both names, because a tool before this library calls PMPI's,
 * and one behind it, too. The outermost call prepares, the innermost begins.
 */
static enum { NOT_CALLED, CALLED, BEGUN } stage;

/* Before MPI_Init, which asks for this level. Sets the level to ask for. */
static void prepare(int *level) {
    stage = CALLED;
    cf_runtime.raised = false;
    if (!cf_library_is_ours()) {
        return;
    }
    cf_presence_announce();
    if (*level < MPI_THREAD_MULTIPLE && wants_threads()) {
        cf_runtime.raised = true;
        cf_runtime.asked = *level;
        *level = MPI_THREAD_MULTIPLE;
    }
}

/* Calls MPI_Init if required is -1, else MPI_Init_thread. */
static int call(const struct functions *functions, int *argc, char ***argv, int required,
                int *provided) {
    return required < 0 ? functions->init(argc, argv)
                        : functions->init_thread(argc, argv, required, provided);
}

/* pmpi: the name that was called. */
CF_APART static int initialize(bool pmpi, int *argc, char ***argv, int required, int *provided) {
    const struct functions *functions = pmpi ? next_pmpi() : &next;
    const bool outermost = stage == NOT_CALLED;
    int level = required < 0 ? MPI_THREAD_SINGLE : required;
    int got = MPI_THREAD_SINGLE;
    if (outermost) {
        prepare(&level);
    }
    const bool raises = outermost && cf_runtime.raised;
    const int err =
        call(functions, argc, argv, raises ? level : required, raises ? &got : provided);
    if (err != MPI_SUCCESS) {
        cf_launcher_close();
        stage = outermost ? NOT_CALLED : stage;
        return err;
    }
    if (raises && required >= 0) {
        *provided = got > required ? required : got;
    }
    if (stage == CALLED && (pmpi || outermost)) {
        stage = BEGUN;
        begin();
    }
    if (outermost && cf_runtime.mode != CF_MODE_OFF && is_another_world(pmpi)) {
        be_native();
    }
    return err;
}

COLLFORGE_PUBLIC int MPI_Init(int *argc, char ***argv) {
    if (stage == NOT_CALLED) {
        cf_library_check_caller(__builtin_return_address(0));
    }
    return initialize(false, argc, argv, -1, NULL);
}

COLLFORGE_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    if (stage == NOT_CALLED) {
        cf_library_check_caller(__builtin_return_address(0));
    }
    return initialize(false, argc, argv, required, provided);
}

__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Init(int *argc, char ***argv) {
    return initialize(true, argc, argv, -1, NULL);
}

__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Init_thread(int *argc, char ***argv, int required,
                                                            int *provided) {
    return initialize(true, argc, argv, required, provided);
}

/* The program sees the level that it asked for: a library that finds the higher one here might use
 * threads, which the program does not expect. */
COLLFORGE_PUBLIC int MPI_Query_thread(int *provided) {
    const int err = next.query_thread(provided);
    if (err == MPI_SUCCESS && cf_runtime.raised && *provided > cf_runtime.asked) {
        *provided = cf_runtime.asked;
    }
    return err;
}

static int finalize(const struct functions *functions) {
    cf_threads_end();
    cf_under_way_end();
    return functions->finalize();
}

COLLFORGE_PUBLIC int MPI_Finalize(void) {
    return finalize(&next);
}

/* A tool before this library calls it. */
__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Finalize(void) {
    return finalize(next_pmpi());
}
