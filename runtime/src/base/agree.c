/* What ranks decide together, so that none takes a path of its own. */
#include "base/runtime.h"

bool cf_comm_agree(MPI_Comm comm, bool holds) {
    const int mine = holds;
    int all = 0;
    return PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all;
}

bool cf_all_agree(bool holds) {
    return cf_comm_agree(MPI_COMM_WORLD, holds);
}
