/* Datatypes, and temporaries, copies and reductions of their elements. */
#include "data/unit.h"

#include <stdlib.h>
#include <string.h>

#include "data/facts.h"
#include "data/sizes.h"

/* The type's combiner, and the type it repeats contiguously (MPI_DATATYPE_NULL if none). */
static int origin_of(MPI_Datatype type, int *combiner, MPI_Datatype *inner) {
    struct cf_envelope made;
    MPI_Aint unused = 0;
    int count = 0;

    *inner = MPI_DATATYPE_NULL;
    CF_TRY(cf_envelope_of(type, &made));
    *combiner = made.combiner;
    if (*combiner != MPI_COMBINER_CONTIGUOUS && *combiner != MPI_COMBINER_DUP) {
        return MPI_SUCCESS;
    }
#if MPI_VERSION >= 4
    MPI_Count large = 0;
    return PMPI_Type_get_contents_c(type, made.integers, made.addresses, made.counts, 1, &count,
                                    &unused, &large, inner);
#else
    return PMPI_Type_get_contents(type, made.integers, made.addresses, 1, &count, &unused, inner);
#endif
}

/*
 * Whether n elements of the type lie in memory as in the packed stream. Equal size and extent do
 * not suffice, because a struct type may list its members in another order than in memory. Only
 * predefined types and contiguous repetitions of them count as dense. Others are packed.
 */
static int is_dense(MPI_Datatype type, bool *predefined, bool *dense) {
    int combiner = 0;
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    bool inner_predefined = false;

    *dense = false;
    CF_TRY(origin_of(type, &combiner, &inner));
    *predefined = cf_combiner_is_predefined(combiner);
    if (*predefined) {
        return cf_named_is_dense(type, dense);
    }
    if (inner == MPI_DATATYPE_NULL) {
        return MPI_SUCCESS;
    }
    CF_TRY(is_dense(inner, &inner_predefined, dense));
    return inner_predefined ? MPI_SUCCESS : PMPI_Type_free(&inner);
}

int cf_unit_of(MPI_Datatype type, struct cf_unit *unit) {
    const int dense_size = cf_type_dense_size(type);
    if (dense_size > 0) {
        *unit = (struct cf_unit){.type = type,
                                 .extent = dense_size,
                                 .true_extent = dense_size,
                                 .size = dense_size,
                                 .dense = true};
        return MPI_SUCCESS;
    }
    bool predefined = false;
    unit->type = type;
    CF_TRY(PMPI_Type_get_extent(type, &unit->lb, &unit->extent));
    CF_TRY(PMPI_Type_get_true_extent(type, &unit->true_lb, &unit->true_extent));
    CF_TRY(PMPI_Type_size(type, &unit->size));
    return is_dense(type, &predefined, &unit->dense);
}

void *cf_temps(struct cf_comm *comm, int slot, int n, MPI_Aint count, const struct cf_unit *unit,
               MPI_Aint *apart) {
    enum { ALIGNMENT = 16 };
    const MPI_Aint steps = count > 0 ? count - 1 : 0;
    const MPI_Aint stride = cf_stride(unit);
    /* With the padding around an element, because a user's op may assign whole structs. */
    const MPI_Aint true_ub = unit->true_lb + unit->true_extent;
    const MPI_Aint ub = unit->extent > 0 ? unit->lb + unit->extent : true_ub;
    const MPI_Aint lb = unit->extent > 0 && unit->lb < unit->true_lb ? unit->lb : unit->true_lb;
    /* Rounded down, so that addresses are as aligned as in an array at a multiple of ALIGNMENT. */
    const MPI_Aint begin = lb - ((lb % ALIGNMENT) + ALIGNMENT) % ALIGNMENT;
    const MPI_Aint span = steps * stride + (ub > true_ub ? ub : true_ub) - begin;

    *apart = (span + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *memory = cf_tmpbuf(&comm->tmpbufs, slot, (size_t)((n - 1) * *apart + span));
    if (memory == NULL) {
        return NULL;
    }
    return memory - begin + (unit->extent < 0 ? steps * stride : 0);
}

void *cf_temp(struct cf_comm *comm, int slot, MPI_Aint count, const struct cf_unit *unit) {
    MPI_Aint unused = 0;

    return cf_temps(comm, slot, 1, count, unit, &unused);
}

/* Packs and unpacks, because a message to this rank itself could match one of another thread. */
static int copy_packed(struct cf_comm *comm, void *target, const void *source, int count,
                       const struct cf_unit *unit) {
    int room = 0;
    int filled = 0;
    int taken = 0;

    CF_TRY(PMPI_Pack_size(count, unit->type, comm->layout.node_comm, &room));
    void *packed = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_PACK, (size_t)room);
    CF_TRY_MEMORY(packed);
    CF_TRY(cf_pack(source, count, unit->type, packed, room, &filled, comm->layout.node_comm));
    return cf_unpack(packed, filled, &taken, target, count, unit->type, comm->layout.node_comm);
}

int cf_copy(struct cf_comm *comm, void *target, const void *source, int count,
            const struct cf_unit *unit) {
    if (target == source || count == 0 || unit->size == 0) {
        return MPI_SUCCESS;
    }
    if (unit->dense) {
        memcpy(target, source, (size_t)count * (size_t)unit->extent);
        return MPI_SUCCESS;
    }
    return copy_packed(comm, target, source, count, unit);
}

int cf_copy_apart(struct cf_comm *comm, int slot, const void **data, int count,
                  const struct cf_unit *unit) {
    void *copy = cf_temp(comm, slot, count, unit);

    CF_TRY_MEMORY(copy);
    CF_TRY(cf_copy(comm, copy, *data, count, unit));
    *data = copy;
    return MPI_SUCCESS;
}

int cf_rotate(struct cf_comm *comm, void *target, const void *source, int count, int first,
              const struct cf_unit *unit) {
    const int rest = count - first;

    CF_TRY(cf_copy(comm, target, cf_at(unit, source, first), rest, unit));
    return cf_copy(comm, cf_at(unit, target, rest), source, first, unit);
}

/*
 * after = before + after, for types whose sum is the C addition. For a few numbers the call of
 * MPI_Reduce_local takes longer than the sum.
 */
#define ADD(type)                                                                                  \
    for (int i = 0; i < count; i++) {                                                              \
        type left;                                                                                 \
        type right;                                                                                \
        memcpy(&left, (const char *)before + (size_t)i * sizeof left, sizeof left);                \
        memcpy(&right, (char *)after + (size_t)i * sizeof right, sizeof right);                    \
        right = left + right;                                                                      \
        memcpy((char *)after + (size_t)i * sizeof right, &right, sizeof right);                    \
    }                                                                                              \
    return true

enum { FEW = 8 };

/* Computes the sum if it is one of these, else returns false. Operands need not be aligned. */
static inline bool add_few(const void *before, void *after, int count, MPI_Datatype type,
                           MPI_Op op) {
    if (op != MPI_SUM || count > FEW) {
        return false;
    }
    if (type == MPI_DOUBLE) {
        ADD(double);
    }
    if (type == MPI_FLOAT) {
        ADD(float);
    }
    if (type == MPI_INT || type == MPI_UNSIGNED || type == MPI_INT32_T || type == MPI_UINT32_T) {
        ADD(uint32_t);
    }
    if (type == MPI_INT64_T || type == MPI_UINT64_T || type == MPI_LONG_LONG ||
        type == MPI_UNSIGNED_LONG_LONG) {
        ADD(uint64_t);
    }
    if (type == MPI_LONG || type == MPI_UNSIGNED_LONG) {
        ADD(unsigned long);
    }
    return false;
}

/* For a user's op: copies as many elements at a time as stay in the cache. */
static int combine_copies(struct cf_comm *comm, const void *before, void *after, int count,
                          const struct cf_unit *unit, MPI_Op op) {
    enum { ROOM = 16 << 10 }; /* bytes */
    const MPI_Aint stride = cf_stride(unit);
    const MPI_Aint span = stride > unit->true_extent ? stride : unit->true_extent;
    const int fit = span > ROOM ? 1 : (int)(ROOM / (span > 0 ? span : 1));
    const int few = fit < count ? fit : count;
    void *copy = cf_temp(comm, CF_SLOT_COPIES, few, unit);

    CF_TRY_MEMORY(copy);
    for (int rest = count; rest > 0;) {
        const int units = rest < few ? rest : few;
        const int first = count - rest;
        CF_TRY(cf_copy(comm, copy, cf_at(unit, before, first), units, unit));
        CF_TRY(PMPI_Reduce_local(copy, cf_at(unit, after, first), units, unit->type, op));
        rest -= units;
    }
    return MPI_SUCCESS;
}

CF_APART static int combine_many(struct cf_comm *comm, const void *before, void *after, int count,
                                 const struct cf_unit *unit, MPI_Op op) {
    return cf_op_is_predefined(op) ? PMPI_Reduce_local(before, after, count, unit->type, op)
                                   : combine_copies(comm, before, after, count, unit, op);
}

int cf_combine(struct cf_comm *comm, const void *before, void *after, int count,
               const struct cf_unit *unit, MPI_Op op) {
    return count == 0 || add_few(before, after, count, unit->type, op)
               ? MPI_SUCCESS
               : combine_many(comm, before, after, count, unit, op);
}
