/*
 * The room place: where ranks run, the resulting layout of a communicator on the nodes, and the
 * communicators of its nodes and lanes.
 */
#ifndef COLLFORGE_LAYOUT_H_INCLUDED
#define COLLFORGE_LAYOUT_H_INCLUDED

#include "base/cf.h"

enum { CF_LAYOUT_NAME_SIZE = 263 };

/* All zeros and null handles. */
void cf_layout_clear(struct cf_layout *layout);
/* Fills the layout from the nodes of the ranks, given as any numbers below limit. Communicators and
 * lanes are not filled. False when out of memory. */
bool cf_layout_from_nodes(struct cf_layout *layout, int size, int rank, const int *node_of,
                          int limit);

/* Adds full and single. False, with nothing added, when out of memory. */
bool cf_layout_add_lanes(struct cf_layout *layout);
/* Frees the arrays, not the communicators. */
void cf_layout_free(struct cf_layout *layout);
/* The same for a copy, which shares all arrays with the original except fewer. */
void cf_layout_free_copy(struct cf_layout *layout);

/* The decomposition into at most `most` lanes; 0: as many as the smallest node has ranks. NULL when
 * out of memory, which only a number of lanes new to this communicator can cause. */
const struct cf_lanes *cf_lanes_of(struct cf_layout *layout, int most);

/* Fills layout->sockets. socket_of[size]: the socket of each rank on its node, from 0; negative
 * where it is bound to none or its node has one. False when out of memory. */
bool cf_layout_add_sockets(struct cf_layout *layout, const int *socket_of);

/* The name of the placement on the nodes: "4x2", "3+1", "cyclic:2x3" or "map:0.1.1.0" ("map#<fnv-1a
 * hex>" above 64 ranks). */
void cf_layout_placement(const struct cf_layout *layout, char *name, size_t size);
/* The layout's name: the placement, then "x8" where 8 threads of each process may call MPI at once,
 * then "-packed" or "-cyclic" for its sockets. */
void cf_layout_name(const struct cf_layout *layout, char *name, size_t size);
/* The suffix of a name for these sockets: "", "-packed" or "-cyclic". */
const char *cf_sockets_suffix(enum cf_sockets sockets);

#endif
