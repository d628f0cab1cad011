/* The words of inputs and of expected results (data.h), computed from the problem. */
#ifndef COLLFORGE_BENCH_EXPECTED_H_INCLUDED
#define COLLFORGE_BENCH_EXPECTED_H_INCLUDED

#include "data.h"

/* Sets words: [block's elements][element's lanes] to a block of rank's input. */
void expected_input(const struct data *data, int rank, int block, uint32_t *words);

/* Computes a block of this rank's result in data->words[0]; false if the standard leaves it
 * undefined. Collective: neighbouring ranks may exchange messages. */
bool expected_result(struct data *data, int rank, int block, int size);

#endif
