/* The room hybrid: the packages of collforge_hybrid.h, their shared memory and their
 * collectives. */
#ifndef COLLFORGE_HYBRID_INTERNAL_H_INCLUDED
#define COLLFORGE_HYBRID_INTERNAL_H_INCLUDED

#include "collforge_hybrid.h"
#include "comm/comm.h"

struct cf_hybrid {
    struct collforge_hybrid open; /* the public part; must be first, so that pointers convert */
    uint64_t serial;              /* unique among the packages of this process */
    /* At CF_STAGE_COMPLETE from the start; not an attribute. Its comm.shared is NULL if there was
     * no room for the shared-memory window of the flags. */
    struct cf_state *state;
    char layout_name[CF_LAYOUT_NAME_SIZE];
    int leaders; /* NUMA domains of this node that are nodes of the package; else 1 */
    struct cf_choice *defaults; /* [cf_ncollectives] used without a winner */
};

/* The package, or NULL if the handle is invalid or freed. Local. */
struct cf_hybrid *cf_hybrid_find(struct collforge_hybrid *hybrid);

/* Calls the error handler of the communicator (MPI_COMM_NULL: of MPI_COMM_WORLD); returns the
 * error's class. */
int cf_hybrid_fail(MPI_Comm comm, int err);

/* collforge_hybrid_sync. */
int cf_hybrid_sync(struct cf_hybrid *hybrid);

/* Whether the bytes lie within one hybrid piece. */
bool cf_piece_has(const struct cf_hybrid *hybrid, const void *buffer, size_t bytes);

/* Sets the choices for the package's collectives. Local; false when out of memory. */
bool cf_hybrid_prepare(struct cf_hybrid *hybrid, bool of_world);

/*
 * Runs a collective by choice, or by the winner if choice is NULL; a package must always use the
 * same of the two. Returns an MPI error class: MPI_ERR_TYPE, MPI_ERR_OP, MPI_ERR_ROOT,
 * MPI_ERR_COUNT or MPI_ERR_BUFFER before anything is done, or the error of a step of the variant.
 */
int cf_hybrid_attempt(struct cf_hybrid *hybrid, const struct cf_choice *choice, int collective,
                      const struct cf_args *args);

/* The same for a program's call: sets args->comm and calls the error handler. */
int cf_hybrid_call(struct collforge_hybrid *hybrid, int collective, struct cf_args *args);

/* The persistent form: everything but the run. */
int cf_hybrid_init(struct collforge_hybrid *hybrid, int collective, const struct cf_args *args,
                   struct collforge_hybrid_request **request);

/* Frees all hybrid pieces. Collective over the node. Returns the first MPI error class. */
int cf_pieces_free(struct cf_hybrid *hybrid);

#endif
