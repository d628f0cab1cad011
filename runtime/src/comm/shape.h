/*
 * What a communicator has in common with its duplicates: how it lies on the nodes, the order of its
 * lanes, and the rules that hold there. Made by the first that needs it, freed by the last.
 */
#ifndef COLLFORGE_SHAPE_H_INCLUDED
#define COLLFORGE_SHAPE_H_INCLUDED

#include "base/cf.h"
#include "place/topology.h"
#include "winners/rules.h"

/* Its arrays are for reading. */
struct cf_shape {
    _Atomic int users;
    struct cf_layout layout;      /* without communicators and lanes */
    const struct cf_rules *rules; /* NULL: native for every collective */
    char layout_name[CF_LAYOUT_NAME_SIZE];
    MPI_Group group;              /* of all that have it; see cf_shape_is_of */
    struct cf_lanes full, single; /* under a lock; k is 0 before cf_shape_take_lanes */
};

/* Of a communicator of which nothing is known, with one user. Local. *out is NULL where a process
 * is from outside MPI_COMM_WORLD. Returns an MPI error class. */
int cf_shape_make(MPI_Comm comm, struct cf_shape **out);

/* One user more; returns the shape. Makes no MPI call. */
struct cf_shape *cf_shape_use(struct cf_shape *shape);
/* One user less. may_call: MPI still takes calls. */
void cf_shape_leave(struct cf_shape *shape, bool may_call);

/* Whether the communicator, which an MPI library has handed the shape on to, has a right to it. */
bool cf_shape_is_of(const struct cf_shape *shape, MPI_Comm comm);

/* Puts the lanes into a copy of the shape's layout. Several threads may ask. False when memory is
 * out. */
bool cf_shape_take_lanes(struct cf_shape *shape, struct cf_layout *layout);

#endif
