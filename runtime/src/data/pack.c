/*
 * MPI_Pack and MPI_Unpack with any buffer and type. MPICH 4.0.2 refuses MPI_BOTTOM, and its
 * MPI_Unpack divides by the size of the type.
 */
#include "data/sizes.h"
#include "data/unit.h"

static char somewhere; /* a buffer instead of MPI_BOTTOM */

/* Turns count elements of a type of absolute addresses into one of relative addresses. */
static int rebase(int count, MPI_Datatype type, MPI_Datatype *rebased) {
    MPI_Aint address = 0;

    CF_TRY(PMPI_Get_address(&somewhere, &address));
    const MPI_Aint displacement = -address;
    CF_TRY(PMPI_Type_create_hindexed(1, &count, &displacement, type, rebased));
    return PMPI_Type_commit(rebased);
}

int cf_pack(const void *from, int count, MPI_Datatype type, void *packed, int bytes, int *position,
            MPI_Comm comm) {
    MPI_Datatype rebased = MPI_DATATYPE_NULL;

    if (count == 0 || cf_type_size(type) == 0) {
        return MPI_SUCCESS;
    }
    if (from != MPI_BOTTOM) {
        return PMPI_Pack(from, count, type, packed, bytes, position, comm);
    }
    int err = rebase(count, type, &rebased);
    if (err == MPI_SUCCESS) {
        err = PMPI_Pack(&somewhere, 1, rebased, packed, bytes, position, comm);
    }
    if (rebased != MPI_DATATYPE_NULL) {
        (void)PMPI_Type_free(&rebased);
    }
    return err;
}

int cf_unpack(const void *packed, int bytes, int *position, void *to, int count, MPI_Datatype type,
              MPI_Comm comm) {
    MPI_Datatype rebased = MPI_DATATYPE_NULL;

    if (count == 0 || cf_type_size(type) == 0) {
        return MPI_SUCCESS;
    }
    if (to != MPI_BOTTOM) {
        return PMPI_Unpack(packed, bytes, position, to, count, type, comm);
    }
    int err = rebase(count, type, &rebased);
    if (err == MPI_SUCCESS) {
        err = PMPI_Unpack(packed, bytes, position, &somewhere, 1, rebased, comm);
    }
    if (rebased != MPI_DATATYPE_NULL) {
        (void)PMPI_Type_free(&rebased);
    }
    return err;
}
