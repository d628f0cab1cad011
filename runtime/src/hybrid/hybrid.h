/* The room hybrid: the packages of collforge_hybrid.h, their shared memory and their collectives.
 */
#ifndef COLLFORGE_HYBRID_INTERNAL_H_INCLUDED
#define COLLFORGE_HYBRID_INTERNAL_H_INCLUDED

#include "collforge_hybrid.h"
#include "comm/comm.h"

/* One piece of shared memory. */
struct cf_piece {
    MPI_Win window;
    bool locked; /* its epoch is open */
    void *address;
    size_t bytes;
    struct cf_piece *next;
};

struct cf_hybrid {
    struct collforge_hybrid open; /* what the program sees; first, so that pointers convert */
    uint64_t serial;              /* no other package of this process has it */
    /* Complete from the start; of no communicator's attribute. Its comm.shared is NULL where there
     * was no room for flags. */
    struct cf_state *state;
    char layout_name[CF_LAYOUT_NAME_SIZE];
    struct cf_piece *pieces;
    struct cf_choice *defaults; /* [cf_ncollectives] for what nothing was measured of */
};

/* The package, or NULL where it is none or freed. Local. */
struct cf_hybrid *cf_hybrid_find(struct collforge_hybrid *hybrid);

/* Tells the error handler of the communicator, or of MPI_COMM_WORLD for MPI_COMM_NULL; returns the
 * error's class. */
int cf_hybrid_fail(MPI_Comm comm, int err);

/* What collforge_hybrid_sync does. */
int cf_hybrid_sync(struct cf_hybrid *hybrid);

/* Whether one of the pieces has these bytes. */
bool cf_piece_has(const struct cf_hybrid *hybrid, const void *buffer, size_t bytes);

/* Finds out what the collectives of a package run. Local; false when memory is out. */
bool cf_hybrid_prepare(struct cf_hybrid *hybrid, bool of_world);

/*
 * Runs a collective by a choice, or by what was measured best where it is NULL; a package is used
 * in one of these ways only. Returns an MPI
 * error class: MPI_ERR_TYPE, MPI_ERR_OP, MPI_ERR_ROOT, MPI_ERR_COUNT, MPI_ERR_BUFFER before
 * anything was done, or what a step of the variant met.
 */
int cf_hybrid_attempt(struct cf_hybrid *hybrid, const struct cf_choice *choice, int collective,
                      const struct cf_args *args);

/* The same for a program's call: fills the communicator in, and tells its error handler. */
int cf_hybrid_call(struct collforge_hybrid *hybrid, int collective, struct cf_args *args);

/* The persistent form: all but the run. */
int cf_hybrid_init(struct collforge_hybrid *hybrid, int collective, const struct cf_args *args,
                   struct collforge_hybrid_request **request);

/* Frees all pieces. Collective over the node. Returns the first MPI error class. */
int cf_pieces_free(struct cf_hybrid *hybrid);

#endif
