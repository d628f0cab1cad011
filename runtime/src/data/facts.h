/* The facts of a call that a choice may read, and the call's memory need estimated from them. */
#ifndef COLLFORGE_FACTS_H_INCLUDED
#define COLLFORGE_FACTS_H_INCLUDED

#include "base/cf.h"

/* Whether the op is predefined. Such an op cannot be freed, and commutes. */
bool cf_op_is_predefined(MPI_Op op);
/* As MPI_Op_commutative, without an MPI call for the predefined ops of collectives. */
int cf_op_commutes(MPI_Op op, int *commutes);

/* Whether both handles keep their meaning, because neither op nor type can be freed. 0 stands for
 * none. */
bool cf_means_the_same(MPI_Op op, MPI_Datatype type);

/* The bytes of the call's largest buffer; bytes is that of one block, size the number of ranks. */
static inline int64_t cf_total_bytes(int collective, int size, int64_t bytes) {
    return cf_collectives[collective].total_is_size_blocks ? size * bytes : bytes;
}

/* Fills the facts of a call on a communicator of this layout. op is read only for a reduction. */
void cf_facts_fill(struct cf_facts *facts, const struct cf_layout *layout, int collective,
                   int64_t bytes, MPI_Op op);

/*
 * Estimates the maximum over the ranks of the bytes of temporaries that a call takes. Reads only
 * facts that are equal on all ranks. Assumes dense types.
 */
int64_t cf_memory_estimate(const struct cf_choice *choice, const struct cf_facts *facts);
/* Whether the estimate is at most COLLFORGE_MEMORY, or the size at most twice a measured one. */
bool cf_memory_suffices(const struct cf_choice *choice, const struct cf_facts *facts);

#endif
