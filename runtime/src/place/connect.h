/*
 * Hidden communicators, made by the runtime: their limit, and how all ranks of a communicator
 * create them.
 */
#ifndef COLLFORGE_CONNECT_H_INCLUDED
#define COLLFORGE_CONNECT_H_INCLUDED

#include "base/cf.h"

/*
 * Limit per process, shared-memory windows included: a quarter of MPICH's communicator numbers. The
 * others are left to the program.
 */
enum { CF_MOST_HIDDEN = 512 };

/*
 * As MPI_Comm_split, with MPI_ERRORS_RETURN set and counted as hidden. All ranks must call it,
 * whatever failed before. False on a rank where it failed.
 */
bool cf_hidden_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
/* Frees a communicator of cf_hidden_split; does nothing for MPI_COMM_NULL. */
void cf_hidden_free(MPI_Comm *comm);
/* Whether this process may create this many more. */
bool cf_hidden_may(int more);
/* Counts hidden communicators that cf_hidden_split did not create. */
void cf_hidden_count(int more);

/*
 * Runs part, a collective preparation that creates up to `hidden` communicators, if all ranks may
 * do so. *done is equal on all ranks. Returns an MPI error class.
 */
int cf_prepare_part(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool *done);
/* Whether this thread prepares a nonblocking call: nothing may be set up then. */
void cf_prepare_local(bool local);
/* As cf_prepare_part, for what only some variants need. Runs at most once: not if it is there,
 * never again after it was refused, and not where only cf_prepare_local is allowed. */
int cf_prepare_once(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool there, bool *refused);

/* The most communicators that cf_layout_connect creates. */
enum { CF_LAYOUT_COMMS = 3 };

/* Creates the layout's communicators: node_comm, lane_comm and, for non-consecutive ranks,
 * order_comm. Collective; false on all ranks if any rank failed. */
bool cf_layout_connect(struct cf_layout *layout, MPI_Comm comm);
/* Frees them. */
void cf_layout_disconnect(struct cf_layout *layout);

/*
 * Whether layout.order_comm may be used, equal on all ranks. The first call is collective over the
 * communicator and creates it if needed. Returns an MPI error class.
 */
int cf_order_ready(struct cf_comm *comm, bool *ready);

#endif
