/* What the ranks of MPI_COMM_WORLD decide together, so that none takes a path of its own. */
#include "cf.h"
#include "runtime.h"

bool cf_all_agree(bool holds) {
    const int mine = holds;
    int all = 0;
    return PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS && all;
}
