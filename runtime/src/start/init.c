/*
 * MPI_Init, MPI_Init_thread and MPI_Finalize. World rank 0 reads the environment and the database
 * (settings.c) and broadcasts them. All ranks then decide alike, even if the launcher sets the
 * environment on some of them only.
 */
#include <stdlib.h>

#include "base/cf.h"
#include "base/chain.h"
#include "base/environment.h"
#include "base/library.h"
#include "base/log.h"
#include "base/runtime.h"
#include "base/threads.h"
#include "comm/comm.h"
#include "comm/observe.h"
#include "data/sizes.h"
#include "device/gpu.h"
#include "node/shared_window.h"
#include "place/connect.h"
#include "place/topology.h"
#include "start/launcher.h"
#include "start/settings.h"
#include "start/start.h"
#include "winners/rules.h"

static bool activated = false;

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
    bool good = cf_rules_start(winners);
    if (good && cf_rules_know_parts()) {
        good = cf_layout_build(&world, MPI_COMM_WORLD) == MPI_SUCCESS;
        if (good && world.size > 0) {
            cf_layout_name_with(&world, 1, name, sizeof name);
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
        const bool ready = share_winners(&settings, rank, &winners) && activate() == MPI_SUCCESS;
        const bool active = ready && start_rules(&winners);
        const bool observed = settings.profile || settings.verbose >= 2;
        cf_runtime.mode = !active ? CF_MODE_OFF : observed ? CF_MODE_OBSERVED : CF_MODE_ON;
        cf_runtime.tuned_only = cf_runtime.mode == CF_MODE_ON;
        cf_runtime.awaits_ends = active && (observed || cf_runtime.guard != CF_GUARD_OFF);
        cf_observe_setup(active && settings.profile, settings.nwinners > 0);
        if (active) {
            describe_world();
        }
        if (active && rank == 0) {
            cf_chain_check();
        }
        if (!active && rank == 0) {
            cf_warn("out of memory; native collectives");
        }
    }
    cf_winners_free(&winners);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static struct {
    int (*init)(int *, char ***);
    int (*init_thread)(int *, char ***, int, int *);
    int (*finalize)(void);
} next = {PMPI_Init, PMPI_Init_thread, PMPI_Finalize};

__attribute__((constructor)) static void chain(void) {
    cf_chain("MPI_Init", &next.init);
    cf_chain("MPI_Init_thread", &next.init_thread);
    cf_chain("MPI_Finalize", &next.finalize);
}

/* On all ranks. */
static void stop_observing(void) {
    struct cf_state *world = NULL;
    if (cf_runtime.mode != CF_MODE_OBSERVED ||
        !cf_all_agree(cf_state_of(MPI_COMM_WORLD, &world) == MPI_SUCCESS)) {
        return;
    }
    cf_states_for_each(cf_observe_leave);
    cf_observe_finish(world);
}

/* On all ranks. Frees windows, for which the ranks of a node wait for each other. */
static void stop(void) {
    stop_observing();
    cf_runtime.mode = CF_MODE_OFF;
    cf_runtime.tuned_only = cf_runtime.awaits_ends = false;
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
 * MPI_Finalize. So ours comes last, except after a late start for attributes set before it.
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

/* Whether MPI_Init or MPI_Init_thread of this library is running. A tool behind it may call the
 * other one, or a collective, by its public name. Such calls are passed on as they are. */
static bool starting = false;

/*
 * Whether this rank can start in the first collective on MPI_COMM_WORLD instead of MPI_Init. Not
 * with MPI_THREAD_MULTIPLE: a call of another thread could then find the runtime started on this
 * rank, and not yet on the ranks that it meets. Ranks may have asked for different levels.
 */
static bool may_start_late(void) {
    int level = MPI_THREAD_MULTIPLE;
    return PMPI_Query_thread(&level) == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE &&
           (cf_library.may_be_making == NULL || !cf_library.may_be_making());
}

static void begin(bool after_init) {
    cf_runtime.mode = CF_MODE_OFF;
    if (!cf_library_is_ours()) {
        return;
    }
    stop_at_the_end();
    if (!cf_presence_agree(after_init)) {
        return;
    }
    if (after_init || cf_all_agree(may_start_late())) {
        start();
    }
}

bool cf_runtime_start(MPI_Comm comm) {
    int initialized = 0;
    int finalized = 0;
    if (cf_runtime.mode != CF_MODE_UNSTARTED) {
        return cf_runtime.mode >= CF_MODE_ON;
    }
    if (starting || comm != MPI_COMM_WORLD || PMPI_Initialized(&initialized) != MPI_SUCCESS ||
        !initialized || PMPI_Finalized(&finalized) != MPI_SUCCESS || finalized) {
        return false;
    }
    begin(false);
    return cf_runtime.mode >= CF_MODE_ON;
}

/* Before MPI_Init. Returns whether the environment asks for MPI_THREAD_MULTIPLE, with which
 * collectives may use the threads of an MPI+OpenMP program (threads.h). */
static bool prepare(void) {
    if (!cf_library_is_ours()) {
        return false;
    }
    cf_presence_announce();
    return cf_variable_is_on(CF_VARIABLE_THREAD_MULTIPLE);
}

static int begun(int err) {
    starting = false;
    if (err == MPI_SUCCESS) {
        begin(true);
    } else {
        cf_launcher_close();
    }
    return err;
}

COLLFORGE_PUBLIC int MPI_Init(int *argc, char ***argv) {
    int provided = MPI_THREAD_SINGLE;
    if (starting) {
        return next.init(argc, argv);
    }
    starting = true;
    cf_runtime.raised = prepare();
    return begun(cf_runtime.raised ? next.init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided)
                                   : next.init(argc, argv));
}

COLLFORGE_PUBLIC int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    if (starting) {
        return next.init_thread(argc, argv, required, provided);
    }
    starting = true;
    cf_runtime.raised = prepare() && required < MPI_THREAD_MULTIPLE;
    const int level = cf_runtime.raised ? MPI_THREAD_MULTIPLE : required;
    const int err = begun(next.init_thread(argc, argv, level, provided));
    /* The program sees the level it asked for: its threads may not use the higher one. */
    if (err == MPI_SUCCESS && cf_runtime.raised && *provided > required) {
        *provided = required;
    }
    return err;
}

/* Wrapped under both names: bindings may call either. */
#if MPI_VERSION >= 4
#define WRAP(name)                                                                                 \
    COLLFORGE_PUBLIC int name(MPI_Info info, MPI_Errhandler handler, MPI_Session *session) {       \
        static int (*next_one)(MPI_Info, MPI_Errhandler, MPI_Session *);                           \
        cf_chain(#name, &next_one);                                                                \
        if (cf_library.exchanges_in_sessions && cf_library_is_ours())                              \
            cf_presence_announce();                                                                \
        return next_one(info, handler, session);                                                   \
    }

WRAP(MPI_Session_init)
WRAP(PMPI_Session_init)
#endif

COLLFORGE_PUBLIC int MPI_Finalize(void) {
    cf_threads_end();
    return next.finalize();
}
