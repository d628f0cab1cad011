#include "native.h"

#include <stdlib.h>

#include "report.h"

int own_create(struct own *own, const struct cf_args *args) {
    MPI_Aint lb = 0;
    MPI_Aint extent = 0;
    int size = 0;
    int err = PMPI_Comm_rank(args->comm, &own->rank);

    if (err == MPI_SUCCESS) {
        err = PMPI_Type_get_extent(args->recvtype, &lb, &extent);
    }
    own->block = (char *)args->recvbuf + (MPI_Aint)own->rank * args->recvcount * extent;
    if (err != MPI_SUCCESS || args->recvcounts == NULL) {
        return err;
    }
    err = PMPI_Comm_size(args->comm, &size);
    own->displs = xmalloc((size_t)size * sizeof *own->displs);
    own->displs[0] = 0;
    for (int rank = 1; rank < size; rank++) {
        own->displs[rank] = own->displs[rank - 1] + args->recvcounts[rank - 1];
    }
    return err;
}

void own_free(struct own *own) {
    free(own->displs);
}
