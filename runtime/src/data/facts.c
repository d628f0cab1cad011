#include "data/facts.h"

#include "base/runtime.h"
#include "data/sizes.h"

bool cf_op_is_predefined(MPI_Op op) {
    const MPI_Op predefined[] = {MPI_SUM,  MPI_MAX, MPI_MIN,  MPI_PROD, MPI_MAXLOC, MPI_MINLOC,
                                 MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR,    MPI_BXOR};

    for (size_t i = 0; i < sizeof predefined / sizeof predefined[0]; i++) {
        if (op == predefined[i]) {
            return true;
        }
    }
    return false;
}

int cf_op_commutes(MPI_Op op, int *commutes) {
    *commutes = true;
    return cf_op_is_predefined(op) ? MPI_SUCCESS : PMPI_Op_commutative(op, commutes);
}

bool cf_means_the_same(MPI_Op op, MPI_Datatype type) {
    return (op == (MPI_Op)0 || cf_op_is_predefined(op)) &&
           (type == (MPI_Datatype)0 || cf_type_is_predefined(type));
}

void cf_facts_fill(struct cf_facts *facts, const struct cf_layout *layout, int collective,
                   int64_t bytes, MPI_Op op) {
    const bool has_op = cf_collectives[collective].has_op;
    int commutative = 1;
    if (has_op) {
        (void)cf_op_commutes(op, &commutative);
    }
    *facts = (struct cf_facts){
        .size = layout->size,
        .nodes = layout->nodes,
        .min_node_size = layout->min_node_size,
        .max_node_size = layout->max_node_size,
        .consecutive = layout->consecutive,
        .threads = layout->threads,
        .commutative = commutative,
        .users_op = has_op && !cf_op_is_predefined(op),
        .bytes = bytes,
        .total_bytes = cf_total_bytes(collective, layout->size, bytes),
    };
}

int64_t cf_memory_estimate(const struct cf_choice *choice, const struct cf_facts *facts) {
    const struct cf_temporaries *has = &choice->variant->temporaries;
    const int bound = has->lanes_above == 0 ? 0 : choice->parameter[has->lanes_above - 1];
    int64_t lanes = has->single ? 1 : facts->min_node_size;
    if (bound > 0 && bound < lanes) {
        lanes = bound;
    }
    const int64_t held = (facts->max_node_size + lanes - 1) / lanes; /* ranks per node on a lane */
    /* component.c copies the operand of a user's op, and reduces all blocks before it scatters. */
    const int64_t copies = facts->users_op ? 2 * facts->total_bytes : 0;
    return copies + facts->total_bytes * (has->vector + held * has->crossing) +
           facts->bytes * held * (has->share + facts->nodes * has->lane) +
           (facts->bytes / lanes + 1) * has->slice;
}

bool cf_memory_suffices(const struct cf_choice *choice, const struct cf_facts *facts) {
    return facts->bytes <= 2 * choice->measured ||
           cf_memory_estimate(choice, facts) <= cf_runtime.memory;
}
