/* The communicators of a layout. */
#include "runtime.h"
#include "topology.h"

bool cf_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
    if (PMPI_Comm_split(comm, color, key, out) != MPI_SUCCESS)
        return false;
    return *out == MPI_COMM_NULL ||
           PMPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

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
    if (layout->node_comm != MPI_COMM_NULL)
        (void)PMPI_Comm_free(&layout->node_comm);
    if (layout->lane_comm != MPI_COMM_NULL)
        (void)PMPI_Comm_free(&layout->lane_comm);
    if (layout->order_comm != MPI_COMM_NULL)
        (void)PMPI_Comm_free(&layout->order_comm);
}
