/*
 * The room place: where ranks are, how a communicator therefore lies on the nodes, and the
 * communicators of its nodes and lanes.
 */
#ifndef COLLFORGE_LAYOUT_H_INCLUDED
#define COLLFORGE_LAYOUT_H_INCLUDED

#include "base/cf.h"

enum { CF_LAYOUT_NAME_SIZE = 256 };

/* Fills the layout from the nodes of its ranks, in any numbering below limit, without
 * communicators and lanes. False when memory is out. */
bool cf_layout_from_nodes(struct cf_layout *layout, int size, int rank, const int *node_of,
                          int limit);

/* Adds the orders in which the lanes see the ranks. False, and nothing is added, when memory is
 * out. */
bool cf_layout_add_lanes(struct cf_layout *layout);
/* Frees the arrays, not the communicators. */
void cf_layout_free(struct cf_layout *layout);
/* The same of a copy, whose arrays are the original's but for the lanes that it was asked for
 * (fewer). */
void cf_layout_free_copy(struct cf_layout *layout);

/* The decomposition into so many lanes, or the most that every node has ranks for (0: these). NULL
 * when memory is out, which only a number not met before on this communicator takes. */
const struct cf_lanes *cf_lanes_of(struct cf_layout *layout, int most);

/* The layout's name: "4x2", "3+1", "cyclic:2x3" or "map:0.1.1.0" ("map#<fnv-1a hex>" above 64
 * ranks), with "x8" behind it where each process may have 8 threads inside MPI. */
void cf_layout_name(const struct cf_layout *layout, char *name, size_t size);
/* The same for so many threads, one: without. */
void cf_layout_name_with(const struct cf_layout *layout, int threads, char *name, size_t size);

#endif
