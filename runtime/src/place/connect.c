#include "place/connect.h"

#include "base/runtime.h"
#include "place/prepare.h"

bool cf_layout_connect(struct cf_layout *layout, MPI_Comm comm) {
    const int lane = layout->node_rank < layout->min_node_size ? layout->node_rank : MPI_UNDEFINED;
    bool good = cf_split(comm, layout->node, layout->rank, &layout->node_comm);
    good &= cf_split(comm, lane, layout->node, &layout->lane_comm);
    if (!layout->consecutive)
        good &= cf_split(comm, 0, layout->rank, &layout->order_comm);
    return cf_comm_agree(comm, good);
}

void cf_layout_disconnect(struct cf_layout *layout) {
    cf_unsplit(&layout->node_comm);
    cf_unsplit(&layout->lane_comm);
    cf_unsplit(&layout->order_comm);
}

static bool make_order(struct cf_comm *comm, const void *unused) {
    struct cf_layout *layout = &comm->layout;
    (void)unused;
    return cf_comm_agree(comm->handle,
                         cf_split(comm->handle, 0, layout->rank, &layout->order_comm));
}

int cf_order_ready(struct cf_comm *comm, bool *ready) {
    const MPI_Comm *made = &comm->layout.order_comm;
    const int err =
        cf_prepare_once(comm, 1, make_order, NULL, *made != MPI_COMM_NULL, &comm->order_refused);
    *ready = *made != MPI_COMM_NULL && !comm->order_refused;
    return err;
}
