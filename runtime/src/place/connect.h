/* The communicators of a layout. */
#ifndef COLLFORGE_CONNECT_H_INCLUDED
#define COLLFORGE_CONNECT_H_INCLUDED

#include "base/cf.h"

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
