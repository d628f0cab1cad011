/* The communicators of a layout. */
#include "base/runtime.h"
#include "place/prepare.h"
#include "place/topology.h"

bool cf_layout_connect(struct cf_layout *layout, MPI_Comm comm) {
    const int lane = layout->node_rank < layout->min_node_size ? layout->node_rank : MPI_UNDEFINED;
    bool good = cf_split(comm, layout->node, layout->rank, &layout->node_comm);
    good &= cf_split(comm, lane, layout->node, &layout->lane_comm);
    if (!layout->consecutive)
        good &= cf_split(comm, 0, layout->rank, &layout->order_comm);
    return cf_comm_agree(comm, good);
}

bool cf_layout_connect_order(struct cf_layout *layout, MPI_Comm comm) {
    return cf_comm_agree(comm, cf_split(comm, 0, layout->rank, &layout->order_comm));
}

void cf_layout_disconnect(struct cf_layout *layout) {
    cf_unsplit(&layout->node_comm);
    cf_unsplit(&layout->lane_comm);
    cf_unsplit(&layout->order_comm);
}
