/*
 * What a communicator shares with its duplicates: its layout on the nodes, the order of its lanes,
 * and the rules that apply. The first user creates it, the last one frees it.
 */
#ifndef COLLFORGE_SHAPE_H_INCLUDED
#define COLLFORGE_SHAPE_H_INCLUDED

#include "base/cf.h"
#include "place/topology.h"
#include "winners/rules.h"

/* Read-only arrays. */
struct cf_shape {
    _Atomic int users;
    struct cf_layout layout;      /* without communicators and lanes */
    const struct cf_rules *rules; /* NULL: native for every collective */
    char layout_name[CF_LAYOUT_NAME_SIZE];
    MPI_Group group;              /* of all its users; see cf_shape_is_of */
    struct cf_lanes full, single; /* guarded by a lock; k is 0 before cf_shape_take_lanes */
};

/* The shape of a communicator, with one user. Local. *out is NULL if a process is from outside
 * MPI_COMM_WORLD. Returns an MPI error class. */
int cf_shape_make(MPI_Comm comm, struct cf_shape **out);

/* Adds a user and returns the shape. Makes no MPI call. */
struct cf_shape *cf_shape_use(struct cf_shape *shape);
/* Removes a user. may_call: MPI calls are still allowed. */
void cf_shape_leave(struct cf_shape *shape, bool may_call);

/* Whether the communicator that inherited this shape is really a duplicate. */
bool cf_shape_is_of(const struct cf_shape *shape, MPI_Comm comm);

/* Copies the lanes into a copy of the shape's layout, and builds them first if needed. Thread-safe.
 * False when out of memory. */
bool cf_shape_take_lanes(struct cf_shape *shape, struct cf_layout *layout);

#endif
