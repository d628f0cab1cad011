/* What is behind a package of collforge_hybrid.h. */
#ifndef COLLFORGE_HYBRID_INTERNAL_H_INCLUDED
#define COLLFORGE_HYBRID_INTERNAL_H_INCLUDED

#include "cf.h"
#include "collforge_hybrid.h"

/* One piece of shared memory. */
struct cf_piece {
    MPI_Win window;
    void *address;
    struct cf_piece *next;
};

struct cf_hybrid {
    struct collforge_hybrid open; /* what the program sees; first, so that pointers convert */
    struct cf_comm comm;          /* shared is NULL where there was no room for flags */
    struct cf_piece *pieces;
};

/* The package, or NULL where it is none or freed. Local. */
struct cf_hybrid *cf_hybrid_find(struct collforge_hybrid *hybrid);

/* Tells the error handler of the communicator, or of MPI_COMM_WORLD for MPI_COMM_NULL; returns err.
 */
int cf_hybrid_fail(MPI_Comm comm, int err);

/* Frees all pieces. Collective over the node. Returns the first MPI error class. */
int cf_pieces_free(struct cf_hybrid *hybrid);

#endif
