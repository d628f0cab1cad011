/*
 * What a communicator and its duplicates have in common: its layout on the nodes, the order of its
 * lanes, and the rules that apply. The first user creates it, the last one frees it.
 */
#ifndef COLLFORGE_DUPLICATES_H_INCLUDED
#define COLLFORGE_DUPLICATES_H_INCLUDED

#include "base/cf.h"
#include "place/topology.h"
#include "winners/rules.h"

/* Read-only arrays. */
struct cf_common {
    _Atomic int users;
    struct cf_layout layout;      /* without communicators and lanes */
    const struct cf_rules *rules; /* NULL: native for every collective */
    char layout_name[CF_LAYOUT_NAME_SIZE];
    MPI_Group group;              /* of all its users; see cf_common_is_of */
    struct cf_lanes full, single; /* guarded by a lock; k is 0 before cf_common_take_lanes */
};

/* Makes it for a communicator, its only user. Local. *out is NULL if a process is from outside
 * MPI_COMM_WORLD. Returns an MPI error class. */
int cf_common_make(MPI_Comm comm, struct cf_common **out);

/* Adds a user and returns it. Makes no MPI call. */
struct cf_common *cf_common_use(struct cf_common *common);
/* Removes a user. may_call: MPI calls are still allowed. */
void cf_common_leave(struct cf_common *common, bool may_call);

/* Whether the communicator that inherited this is really a duplicate. */
bool cf_common_is_of(const struct cf_common *common, MPI_Comm comm);

/* Copies the lanes into a copy of the common layout, and builds them first if needed. Thread-safe.
 * False when out of memory. */
bool cf_common_take_lanes(struct cf_common *common, struct cf_layout *layout);

#endif
