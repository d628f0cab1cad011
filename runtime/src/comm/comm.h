/*
 * The room comm: what the runtime remembers of each communicator, from its first collective call or
 * the duplication that made it until it is freed.
 *
 * It is built in two stages: the layout and the rules
 * that hold for it at the first collective call (local), the communicators of node and lane at the
 * first call that runs a variant (collective). It hangs on the communicator as an attribute and
 * goes with it. Duplicates share the layout's arrays; communicators of a size for which nothing is
 * tuned share all they have.
 */
#ifndef COLLFORGE_COMM_H_INCLUDED
#define COLLFORGE_COMM_H_INCLUDED

#include "base/cf.h"
#include "base/handle_table.h"
#include "base/runtime.h"
#include "winners/rules.h"

enum cf_stage {
    CF_STAGE_LOCAL,    /* layout and rules */
    CF_STAGE_COMPLETE, /* node_comm, lane_comm and the lanes too */
    CF_STAGE_UNUSABLE, /* completing it failed: native for good, on all its ranks */
};

/*
 * Calls of a collective that are native for sure: those with this type, if the count, or the sum of
 * all ranks' counts, is one of the span + 1 numbers from least on. type is 0, which is no handle,
 * where none are known.
 */
struct cf_native {
    MPI_Datatype type;
    int64_t least;
    uint64_t span;
};

/*
 * What is remembered of the last calls of one collective, so that another like them is not looked
 * at again. Types and ops are kept only where nobody can free them.
 *
 * The last call that a variant serves is, from cf_choose to cf_attempt, the one in progress. Its
 * choice and bytes hold for each call of this count and type. Once it is settled, one with this op
 * and these types, the same for both sides, needs no look at any of them before its run.
 */
struct cf_last {
    struct cf_native native;
    const struct cf_choice *choice; /* NULL: there was none */
    int64_t bytes;
    MPI_Datatype type; /* 0, which is no handle: the choice holds for no other call */
    int count;
    bool settled;
    MPI_Op op;
    MPI_Datatype both;
};

struct cf_shape;

struct cf_state {
    struct cf_comm comm;          /* its layout is a copy of the shape's */
    struct cf_shape *shape;       /* NULL where no variant can ever run: cf_untuned and cf_freed */
    const char *layout_name;      /* the shape's */
    const struct cf_rules *rules; /* NULL: native for every collective */
    enum cf_stage stage;
    bool waited;     /* a call was native that a variant would have served (dispatch.c) */
    bool dropped;    /* by us, while the communicator lives on */
    bool kinds_read; /* of memory that its buffers are in (kinds.h) */
    bool host_only;  /* what they say */
    struct cf_state *previous, *next;
    struct cf_last last[]; /* [cf_ncollectives] */
};

CF_HIDDEN extern struct cf_handle_table cf_states;

/*
 * What cf_states has for a communicator whose freeing has begun. The program's delete callbacks may
 * still call collectives on it: they are native, since an attribute of a communicator that loses
 * its attributes would never be deleted, or worse. The entry outlives the communicator;
 * cf_state_enter tells it from a new one with the same handle.
 */
CF_HIDDEN extern struct cf_state *cf_freed;

/*
 * The state of every communicator that no variant can ever serve: intercommunicators, those with
 * processes from outside MPI_COMM_WORLD, and those of a size for which nobody has tuned.
 * layout.size is 0. Nobody writes to it.
 */
CF_HIDDEN extern struct cf_state *cf_untuned;

/* Stage one of a communicator that is not in cf_states, or as cf_freed. Local. Returns an MPI error
 * class: MPI_ERR_COMM for one that is being freed. */
int cf_state_enter(MPI_Comm comm, struct cf_state **state);

/* No MPI call for a known communicator. Returns an MPI error class. */
static inline int cf_state_of(MPI_Comm comm, struct cf_state **state) {
    uintptr_t found;
    if (cf_handle_find(&cf_states, (uintptr_t)comm, &found) && found != (uintptr_t)cf_freed) {
        *state = (struct cf_state *)found;
        return MPI_SUCCESS;
    }
    return cf_state_enter(comm, state);
}

/*
 * The state of a communicator with its layout and communicators built: collective over comm at the
 * first call, cached on comm as an attribute, freed with it. Never for intercommunicators or a comm
 * with a process from outside MPI_COMM_WORLD: then *out is NULL. Returns an MPI error class.
 */
int cf_comm_get(MPI_Comm comm, struct cf_comm **out);

/* An empty one, of a communicator of no ranks. NULL when memory is out. */
struct cf_state *cf_state_allocate(void);
/* Stage two of a communicator with ranks. Collective at the first call; then its stage is another
 * one on all ranks alike. Returns an MPI error class. */
int cf_state_complete(struct cf_state *state);

/* Drops what is settled, so that the next calls are looked at again. May run beside calls of other
 * threads. */
void cf_state_unsettle(struct cf_state *state);
/* The same of all communicators. */
void cf_states_unsettle(void);

/* PMPI_Comm_free of a communicator that the runtime has duplicated for a package, and so has the
 * attribute. */
int cf_comm_free(MPI_Comm *comm);

/* Returns an MPI error class. */
int cf_states_start(void);
/* Frees the state of all communicators; cf_shared_stop frees the windows that they leave. */
void cf_states_stop(void);

#endif
