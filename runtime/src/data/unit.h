/*
 * The room data: the bytes of a call, from the user's buffers to what each rank of a node has of
 * them, and the steps that need no more than that.
 *
 * Collectives without an op move bytes of the packed stream, because ranks may describe one
 * signature by different counts and datatypes; reductions move elements of the call's datatype.
 * Either way a variant sees units: MPI_BYTE or the user's type.
 */
#ifndef COLLFORGE_UNIT_H_INCLUDED
#define COLLFORGE_UNIT_H_INCLUDED

#include "data/tmpbuf.h"

struct cf_unit {
    MPI_Datatype type;
    MPI_Aint extent;
    MPI_Aint true_lb;
    MPI_Aint true_extent;
    int size;   /* bytes of the packed element */
    bool dense; /* n units are n * size contiguous bytes, in signature order */
};

int cf_unit_of(MPI_Datatype type, struct cf_unit *unit);

static inline void *cf_at(const struct cf_unit *unit, const void *buffer, MPI_Aint index) {
    return (char *)buffer + index * unit->extent;
}

/* Room for count units in a slot, as a buffer to pass to MPI (shifted by the lower bound); NULL
 * when memory is out. */
void *cf_temp(struct cf_comm *comm, int slot, MPI_Aint count, const struct cf_unit *unit);

/* The same for n vectors of count units, each `apart` bytes behind the one before: elements may
 * reach beyond their extent, so that one vector's would lie in the next that begins where the last
 * extent ends. */
void *cf_temps(struct cf_comm *comm, int slot, int n, MPI_Aint count, const struct cf_unit *unit,
               MPI_Aint *apart);

/* Copies count units; nothing where target == source. */
int cf_copy(struct cf_comm *comm, void *target, const void *source, int count,
            const struct cf_unit *unit);

/*
 * after = before o after; nothing where count is 0, which a user's op need not stand. Such an op
 * may store into both of its operands: it gets a copy of `before`, which may be the caller's or
 * still be read by other ranks.
 */
int cf_combine(struct cf_comm *comm, const void *before, void *after, int count,
               const struct cf_unit *unit, MPI_Op op);

/* target = source (count units) turned round: its units from first on, then those before. */
int cf_rotate(struct cf_comm *comm, void *target, const void *source, int count, int first,
              const struct cf_unit *unit);

/* MPI_Pack and MPI_Unpack that take MPI_BOTTOM with every MPI library. */
int cf_pack(const void *from, int count, MPI_Datatype type, void *packed, int bytes, int *position,
            MPI_Comm comm);
int cf_unpack(const void *packed, int bytes, int *position, void *to, int count, MPI_Datatype type,
              MPI_Comm comm);

#endif
