/*
 * Message sizes in buckets of a quarter octave, and the sizes of datatypes.
 *
 * Bucket b holds the sizes from 2^(b/4) up to 2^((b+1)/4). If sizes are measured at powers of two,
 * or also half way between them on the logarithmic scale, the midpoints are borders of buckets.
 */
#ifndef COLLFORGE_SIZES_H_INCLUDED
#define COLLFORGE_SIZES_H_INCLUDED

#include "base/cf.h"
#include "base/handle_table.h"
#include "base/runtime.h"

enum { CF_BUCKETS = 124 }; /* for sizes from 1 to CF_MOST_BYTES */

/* 2^63.25, 2^63.5 and 2^63.75, rounded up. */
#define CF_QUARTER_1 UINT64_C(0x9837F0518DB8A970)
#define CF_QUARTER_2 UINT64_C(0xB504F333F9DE6485)
#define CF_QUARTER_3 UINT64_C(0xD744FCCAD69D6AF5)

/* floor(4 log2 n), n > 0. By integers, so that all ranks agree on any processors. */
static inline int cf_bucket(uint64_t n) {
    const int zeros = __builtin_clzll(n);
    const uint64_t top = n << zeros;
    return 4 * (63 - zeros) + (top >= CF_QUARTER_1) + (top >= CF_QUARTER_2) + (top >= CF_QUARTER_3);
}

/* The smallest size in bucket b or above. */
uint64_t cf_bucket_begin(int bucket);

CF_HIDDEN extern struct cf_handle_table cf_types;

/*
 * How a type was made. MPI-4 has types made with counts of type MPI_Count. Only the large-count
 * functions describe those, and they describe all types.
 */
struct cf_envelope {
#if MPI_VERSION >= 4
    MPI_Count integers, addresses, counts, types;
#else
    int integers, addresses, types;
#endif
    int combiner;
};

/* Returns an MPI error class. */
int cf_envelope_of(MPI_Datatype type, struct cf_envelope *envelope);

/* Whether a type of this combiner is predefined. Types of MPI_Type_create_f90_... are, too: they
 * cannot be freed. */
bool cf_combiner_is_predefined(int combiner);

/*
 * The entry of a type in cf_types: its size; whether it is predefined; and whether it is also
 * dense. Elements of a dense type lie in memory as in the packed stream, contiguous from address 0
 * on.
 */
enum { CF_TYPE_PREDEFINED = 1, CF_TYPE_DENSE = 2, CF_TYPE_SIZE_SHIFT = 2 };

/* Whether a predefined type is dense, in the sense of CF_TYPE_DENSE. Returns an MPI error class. */
int cf_named_is_dense(MPI_Datatype type, bool *dense);

/* The slow path of cf_type_size: finds the size of a type and enters it in cf_types if possible. -1
 * for a type without a size or not committed. */
int64_t cf_type_size_enter(MPI_Datatype type);

/* Bytes of the packed type; no MPI call if the type is in cf_types. */
static inline int64_t cf_type_size(MPI_Datatype type) {
    uintptr_t entry;
    if (cf_handle_find(&cf_types, (uintptr_t)type, &entry)) {
        return (int64_t)(entry >> CF_TYPE_SIZE_SHIFT);
    }
    return cf_type_size_enter(type);
}

/* Whether the type is known to be predefined. False before cf_type_size has seen it. */
static inline bool cf_type_is_predefined(MPI_Datatype type) {
    uintptr_t entry;
    return cf_handle_find(&cf_types, (uintptr_t)type, &entry) && (entry & CF_TYPE_PREDEFINED) != 0;
}

/* The size of a predefined dense type; 0 for others, and before cf_type_size has seen the type. */
static inline int cf_type_dense_size(MPI_Datatype type) {
    uintptr_t entry;
    return cf_handle_find(&cf_types, (uintptr_t)type, &entry) && (entry & CF_TYPE_DENSE) != 0
               ? (int)(entry >> CF_TYPE_SIZE_SHIFT)
               : 0;
}

/* The error of a predefined op that does not apply to a type; else MPI_SUCCESS. Local. */
int cf_op_check(MPI_Op op, MPI_Datatype type);

/* Returns an MPI error class. Local; a second call does nothing. */
int cf_types_start(void);
void cf_types_stop(void);

#endif
