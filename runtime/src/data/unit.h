/*
 * The room data: the bytes of a call, from the user's buffers to the parts of each rank of a node,
 * and the steps that only move those.
 *
 * Collectives without an op move bytes of the packed stream, because ranks may describe one type
 * signature by different counts and datatypes. Reductions move elements of the call's datatype. A
 * variant's unit is therefore MPI_BYTE or the user's type.
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
    bool dense; /* n units are n * size contiguous bytes in signature order */
    MPI_Aint lb;
};

int cf_unit_of(MPI_Datatype type, struct cf_unit *unit);

/* Bytes between the beginnings of two elements that follow each other. */
static inline MPI_Aint cf_stride(const struct cf_unit *unit) {
    return unit->extent < 0 ? -unit->extent : unit->extent;
}

static inline void *cf_at(const struct cf_unit *unit, const void *buffer, MPI_Aint index) {
    return (char *)buffer + index * unit->extent;
}

/* Memory for count units in a slot, as a buffer to pass to MPI (shifted by the lower bound). NULL
 * when out of memory. */
void *cf_temp(struct cf_comm *comm, int slot, MPI_Aint count, const struct cf_unit *unit);

/* The same for n vectors of count units, apart bytes from one to the next. Elements may be longer
 * than their extent, so vectors at a distance of count extents could overlap. */
void *cf_temps(struct cf_comm *comm, int slot, int n, MPI_Aint count, const struct cf_unit *unit,
               MPI_Aint *apart);

/* Copies count units; does nothing if target == source. */
int cf_copy(struct cf_comm *comm, void *target, const void *source, int count,
            const struct cf_unit *unit);

/*
 * after = before op after. Does nothing for count 0, which users' ops need not support. A user's op
 * may write both operands. It gets a copy of `before`, which may be the caller's buffer or still be
 * read by other ranks.
 */
int cf_combine(struct cf_comm *comm, const void *before, void *after, int count,
               const struct cf_unit *unit, MPI_Op op);

/* Replaces the address of count units by that of a copy in a slot. */
int cf_copy_apart(struct cf_comm *comm, int slot, const void **data, int count,
                  const struct cf_unit *unit);
/* Copies count units, rotated: units first to count - 1, then 0 to first - 1. */
int cf_rotate(struct cf_comm *comm, void *target, const void *source, int count, int first,
              const struct cf_unit *unit);

/* MPI_Pack and MPI_Unpack, with support for MPI_BOTTOM in every MPI library. */
int cf_pack(const void *from, int count, MPI_Datatype type, void *packed, int bytes, int *position,
            MPI_Comm comm);
int cf_unpack(const void *packed, int bytes, int *position, void *to, int count, MPI_Datatype type,
              MPI_Comm comm);

#endif
