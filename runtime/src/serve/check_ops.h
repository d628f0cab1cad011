/*
 * COLLFORGE_CHECK_OPS: tells which of the program's ops give another result when they are called
 * with parts of a vector, and so cannot bear COLLFORGE_SPLIT_OPS. Each rank reduces its vector with
 * rank 0's, in whole and in halves, in the first call of each op that a variant could serve.
 */
#ifndef COLLFORGE_CHECK_OPS_H_INCLUDED
#define COLLFORGE_CHECK_OPS_H_INCLUDED

#include "base/cf.h"

/* Of a collective with an op of the program; collective over its communicator. Warns with the name
 * of the op's function, if it can be found. */
void cf_check_op(int collective, const struct cf_args *args);

#endif
