#include "base/runtime.h"

struct cf_runtime cf_runtime = {.memory = CF_USUAL_MEMORY};

bool cf_comm_agree(MPI_Comm comm, bool holds) {
    const int mine = holds;
    int all = 0;
    return PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all;
}

bool cf_all_agree(bool holds) {
    return cf_comm_agree(MPI_COMM_WORLD, holds);
}
