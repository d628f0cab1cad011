/*
 * The room comm: the state that the runtime keeps for each communicator, from its first collective
 * call, or from the duplication that made it, until it is freed.
 *
 * A state is built in two stages. The layout and the rules that apply are built at the first
 * collective call (local). The communicators of node and lane are built at the first call that runs
 * a variant (collective). The state is an attribute of the communicator and is freed with it.
 * Duplicates share the layout's arrays. Communicators of a size without any tuned collective share
 * one state.
 */
#ifndef COLLFORGE_COMM_H_INCLUDED
#define COLLFORGE_COMM_H_INCLUDED

#include "base/cf.h"
#include "base/handle_table.h"
#include "base/runtime.h"
#include "winners/rules.h"

enum cf_stage {
    CF_STAGE_LOCAL,    /* layout and rules */
    CF_STAGE_COMPLETE, /* also node_comm, lane_comm and the lanes */
    CF_STAGE_UNUSABLE, /* stage two failed: always native, on all its ranks */
};

/*
 * Calls of a collective that are known to be native: those with this type whose count, or sum of
 * all ranks' counts, is in [least, least + span]. type is 0, which is no handle, if none are known.
 */
struct cf_native {
    MPI_Datatype type;
    int64_t least;
    uint64_t span;
};

/*
 * What the last calls of one collective allow to skip for the next one. Types and ops are kept only
 * if they cannot be freed.
 *
 * choice, bytes, type and count describe the last call that a variant serves; from cf_choose to
 * cf_attempt it is the current one. They hold for every call of this count and type. If settled, a
 * call with this op, and with type `both` on both sides, runs without any further check.
 */
struct cf_last {
    struct cf_native native;
    const struct cf_choice *choice; /* NULL: no such call */
    int64_t bytes;
    uint32_t served; /* calls for which a variant was chosen */
    struct cf_exchanges {
        int pause;   /* calls to come that are native without an exchange of sizes */
        int in_vain; /* exchanges in a row after which native served */
    } blocking, started;
    MPI_Datatype type; /* 0, which is no handle: valid for the current call only */
    int count;
    bool settled;
    MPI_Op op;
    MPI_Datatype both;
};

/* Pairs of calls after which a trial ends, and the native calls before it after which the ranks
 * agree how many there are to be. */
enum { CF_TRIAL_PAIRS = 6, CF_TRIAL_TIMED = 4 };

/* The trial of a choice at the sizes of a bucket on a communicator (serve/guard.h). */
struct cf_trial {
    const struct cf_choice *choice;
    int bucket;
    int calls;
    bool again;      /* a re-test */
    int64_t waited;  /* native calls before the trial */
    int64_t wait;    /* how many there are to be; 0: not agreed yet */
    double shortest; /* seconds of this rank's shortest one, of those timed */
    double set_up;   /* when this rank began to set the variant up, then the seconds that it took */
    enum { CF_TRIAL_OPEN, CF_TRIAL_KEPT, CF_TRIAL_DROPPED } verdict;
    double seconds[2][CF_TRIAL_PAIRS]; /* of this rank's calls: native's, the variant's */
    struct cf_trial *next;
};

struct cf_tally;

/*
 * A call of the program that is observed or on trial. It lies in the wrapper's frame, because a
 * tool may call other collectives inside it, and an error handler may leave it for good. It ends
 * after an error, too, but nothing of it is touched if an error handler, which can hide the error,
 * has freed the communicator. Set only if cf_runtime.awaits_ends.
 */
struct cf_call {
    struct cf_tally *tally;         /* NULL: not observed */
    struct cf_trial *trial;         /* NULL: not on trial */
    const struct cf_choice *choice; /* of an observed call; NULL: native */
    double begin;                   /* of the observed call; CLOCK_MONOTONIC, seconds */
    MPI_Comm comm;
    struct cf_state *state; /* of comm */
    int number;             /* in the trial; -1 before it */
    double trial_begin;     /* after the barrier before a call in the trial */
};

struct cf_common;
struct cf_companions;

struct cf_state {
    struct cf_comm comm;          /* its layout is a copy of the common one */
    struct cf_common *common;     /* NULL for cf_untuned and cf_freed: no variant can run */
    const char *layout_name;      /* the common one */
    const struct cf_rules *rules; /* NULL: native for every collective */
    enum cf_stage stage;
    bool waited;           /* native has served a call in place of a variant (dispatch.c) */
    bool dropped;          /* the runtime drops the state, the communicator stays */
    bool kinds_read;       /* memory kinds of its buffers were read (kinds.h) */
    bool host_only;        /* they are host memory only */
    bool inherited;        /* it came to the communicator by duplication */
    _Atomic int under_way; /* nonblocking calls that variants serve (under_way.h) */
    struct cf_companions *companions; /* NULL: none (companions.h) */
    struct cf_trial *trials[2]; /* of blocking calls, of nonblocking ones (in coroutines only) */
    struct cf_tally *tallies;   /* of its calls (observe.h) */
    struct cf_state *previous, *next;
    struct cf_last last[]; /* [cf_ncollectives] */
};

/* Whether a variant is chosen for any size of the collective. */
static inline bool cf_state_tunes(const struct cf_state *state, int collective) {
    return state->rules != NULL && state->rules->tuned[collective];
}

CF_HIDDEN extern struct cf_handle_table cf_states;

/*
 * The entry in cf_states of a communicator that is being freed. The program's delete callbacks may
 * still call collectives on it. These are native, because no attribute may be added to a
 * communicator whose attributes are being deleted. The entry outlives the communicator;
 * cf_state_enter tells it from a new one with the same handle.
 */
CF_HIDDEN extern struct cf_state *cf_freed;

/*
 * The shared state of all communicators that no variant can serve: intercommunicators, those with
 * processes from outside MPI_COMM_WORLD, and those of a size without any tuned collective.
 * layout.size is 0. Read-only.
 */
CF_HIDDEN extern struct cf_state *cf_untuned;

/* Stage one of a communicator that is not in cf_states, or there as cf_freed. Local. Returns an MPI
 * error class: MPI_ERR_COMM for a communicator that is being freed. */
int cf_state_enter(MPI_Comm comm, struct cf_state **state);

/* Makes no MPI call for a known communicator. Returns an MPI error class. */
static inline int cf_state_of(MPI_Comm comm, struct cf_state **state) {
    uintptr_t found;
    if (cf_handle_find(&cf_states, (uintptr_t)comm, &found) && found != (uintptr_t)cf_freed) {
        *state = (struct cf_state *)found;
        return MPI_SUCCESS;
    }
    return cf_state_enter(comm, state);
}

/*
 * The state of a communicator with both stages built. Collective over comm at the first call. *out
 * is NULL for intercommunicators and for communicators with a process from outside MPI_COMM_WORLD.
 * Returns an MPI error class.
 */
int cf_comm_get(MPI_Comm comm, struct cf_comm **out);

/* An empty state, with layout.size 0. NULL when out of memory. */
struct cf_state *cf_state_allocate(void);
/* Stage two of a communicator with layout.size > 0. Collective at the first call, after which stage
 * is no longer CF_STAGE_LOCAL, equal on all ranks. Returns an MPI error class. */
int cf_state_complete(struct cf_state *state);

/* Reports a component's error as the call's, and returns it. Out of memory may affect one rank
 * only, while others wait for its messages: the job is aborted. */
int cf_raise(MPI_Comm comm, int err);

/* Makes the next calls on the communicator take the full checks. Other threads may be calling. */
void cf_state_unsettle(struct cf_state *state);
/* For the states of all communicators that have one of their own. Under a lock. */
void cf_states_for_each(void (*visit)(struct cf_state *));

/*
 * Around the freeing of a communicator, which cf_freeing_end (being_freed.h) ends. The program's
 * delete callbacks may call collectives on it. These are native on all ranks, whether its state is
 * still there or not. MPICH may call the callbacks later: until it has called ours, the attribute
 * tells them, with cf_freed as its value. False, and nothing has begun, if the runtime is off.
 */
bool cf_state_freeing(MPI_Comm comm);
/* Makes all collectives of the communicator native for good. Local; on all its ranks. */
void cf_state_decline(MPI_Comm comm);

/* Frees a communicator that the runtime duplicated for a hybrid package, and which therefore has
 * the attribute. */
int cf_comm_free(MPI_Comm *comm);

/* Returns an MPI error class. */
int cf_states_start(void);
/* Frees the states of all communicators. cf_shared_stop then frees their shared-memory windows. */
void cf_states_stop(void);

#endif
