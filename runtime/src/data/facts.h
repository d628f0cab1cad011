/* What a choice may read: the facts of a call, and what memory the call takes by them. */
#ifndef COLLFORGE_FACTS_H_INCLUDED
#define COLLFORGE_FACTS_H_INCLUDED

#include "base/cf.h"

/* Whether nobody can free the op, and it commutes. */
bool cf_op_is_predefined(MPI_Op op);
/* As MPI_Op_commutative; no MPI call for a predefined op of a collective, which all commute. */
int cf_op_commutes(MPI_Op op, int *commutes);

/* Whether both handles mean the same for good. Each is 0, which is none, where a call has none. */
bool cf_means_the_same(MPI_Op op, MPI_Datatype type);

/* The bytes of the largest buffer of a call with blocks of so many, on so many ranks. */
static inline int64_t cf_total_bytes(int collective, int size, int64_t bytes) {
    return cf_collectives[collective].total_is_size_blocks ? size * bytes : bytes;
}

/*
 * Fills the facts of a call on a communicator of this layout. op is read only when the collective
 * has one.
 */
void cf_facts_fill(struct cf_facts *facts, const struct cf_layout *layout, int collective,
                   int64_t bytes, MPI_Op op);

/*
 * About how many bytes of temporaries a call takes on a rank at most: from facts that are alike on
 * all ranks, for dense types.
 */
int64_t cf_memory_estimate(const struct cf_choice *choice, const struct cf_facts *facts);
/* Whether that is no more than COLLFORGE_MEMORY, or the size no more than twice a measured one. */
bool cf_memory_suffices(const struct cf_choice *choice, const struct cf_facts *facts);

#endif
