/*
 * Communicators that the program does not know of: how many there may be, and how a communicator's
 * ranks make some together.
 */
#ifndef COLLFORGE_CONNECT_H_INCLUDED
#define COLLFORGE_CONNECT_H_INCLUDED

#include "base/cf.h"

/*
 * Of one process, windows included: half of those that MPICH has numbers for. The program's own
 * come first.
 */
enum { CF_MOST_HIDDEN = 1024 };

/*
 * As MPI_Comm_split, with errors returned by the new communicator, which counts as hidden. All
 * ranks take part in each, whatever happened before; false on the rank that gets none.
 */
bool cf_hidden_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
/* Frees what cf_hidden_split has made; nothing happens to MPI_COMM_NULL. */
void cf_hidden_free(MPI_Comm *comm);
/* Whether MPI_Comm_idup of this process may be under way, so that communicators must not be made
 * now. */
bool cf_idup_may_run(void);
/* Whether this process may have so many more. */
bool cf_hidden_may(int more);
/* Counts so many more, which cf_hidden_split has not made. */
void cf_hidden_count(int more);

/*
 * Runs a collective part of a preparation that makes so many hidden communicators, if all ranks may
 * make them. *done is alike on all ranks. Returns an MPI error class.
 */
int cf_prepare_part(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool *done);
/* The same for what only some variants need: at the first call that finds it neither there nor
 * refused, which is for good. */
int cf_prepare_once(struct cf_comm *comm, int hidden, bool (*part)(struct cf_comm *, const void *),
                    const void *wanted, bool there, bool *refused);

/* How many cf_layout_connect makes, at most. */
enum { CF_LAYOUT_COMMS = 3 };

/* Makes the layout's communicators: node_comm, lane_comm and, where ranks are not consecutive,
 * order_comm. Collective; false on all ranks where one of them has not got all. */
bool cf_layout_connect(struct cf_layout *layout, MPI_Comm comm);
/* Frees them. */
void cf_layout_disconnect(struct cf_layout *layout);

/*
 * Whether layout.order_comm, all ranks in their order, may be used, alike on all of them.
 * Collective over the communicator at the first call, which makes it where the layout did not need
 * it. Returns an MPI error class.
 */
int cf_order_ready(struct cf_comm *comm, bool *ready);

#endif
