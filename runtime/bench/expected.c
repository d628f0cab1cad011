#include "expected.h"

#include "draw.h"
#include "oracle.h"
#include "report.h"

/* For sum and max: small integers, so that sums are exact in any order. For the affine op: odd
 * slopes, so that no product of them is 0. */
void expected_input(const struct data *data, int rank, int block, uint32_t *words) {
    const struct problem *problem = data->problem;
    const size_t nwords =
        (size_t)sizes_between(&data->sizes, rank, block) * (size_t)problem->element->lanes;
    const uint32_t key = draw(problem->seed, (uint32_t)rank, (uint32_t)block);

    for (size_t i = 0; i < nwords; i++) {
        words[i] = mix(key + (uint32_t)i * 0x9e3779b9U);
    }
    if (problem->op == OP_SUM || problem->op == OP_MAX) {
        for (size_t i = 0; i < nwords; i++) {
            words[i] = (words[i] & 0x3ff) - 512;
        }
    } else if (problem->op == OP_AFFINE) {
        for (size_t i = 0; i < nwords; i += 2) {
            words[i] |= 1;
        }
    }
}

enum { MANY_RANKS = 64 };

/* Whether rank's result is the one of the rank before it, with more operands or none: allreduce,
 * scan, exscan. */
static bool extends(const struct data *data, int rank, int size) {
    const struct problem *problem = data->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    const int root = problem->root;
    const int before = rank - 1;

    return rank > 0 && rank < size && size >= MANY_RANKS &&
           cf_collectives[problem->collective].has_op &&
           oracle->out_blocks(before, root, size) == 1 &&
           oracle->out_blocks(rank, root, size) == 1 &&
           oracle->source_block(before, 0, root, size) ==
               oracle->source_block(rank, 0, root, size) &&
           oracle->first(before, 0, root, size) == oracle->first(rank, 0, root, size) &&
           oracle->first(before, 0, root, size) < oracle->last(before, 0, root, size) &&
           oracle->last(before, 0, root, size) <= oracle->last(rank, 0, root, size);
}

/* Many ranks extend their neighbours' results, because size * size vectors take a simulation, whose
 * ranks share a core, longer than the calls. */
bool expected_result(struct data *data, int rank, int block, int size) {
    const struct problem *problem = data->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    int first = oracle->first(rank, block, problem->root, size);
    const int last = oracle->last(rank, block, problem->root, size);
    const int nwords = data->output.count[block] * problem->element->lanes;
    enum { TAG = 1 };

    if (first >= last) {
        return false;
    }
    const int source = oracle->source_block(rank, block, problem->root, size);
    if (extends(data, rank, size)) {
        must(PMPI_Recv(data->words[0], nwords, MPI_UINT32_T, rank - 1, TAG, data->comm,
                       MPI_STATUS_IGNORE),
             "MPI_Recv");
        first = oracle->last(rank - 1, block, problem->root, size);
    } else {
        expected_input(data, first++, source, data->words[0]);
    }
    for (int other = first; other < last; other++) {
        expected_input(data, other, source, data->words[1]);
        types_combine(problem->element, problem->op, data->words[0], data->words[1],
                      (size_t)data->output.count[block]);
    }
    if (extends(data, rank + 1, size)) {
        must(PMPI_Send(data->words[0], nwords, MPI_UINT32_T, rank + 1, TAG, data->comm),
             "MPI_Send");
    }
    return true;
}
