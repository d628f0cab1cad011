/*
 * COLLFORGE_CHECK_OPS: tells which of the program's ops give another result when they are called
 * with parts of a vector, and so cannot bear COLLFORGE_SPLIT_OPS. Found by one local reduction in
 * whole and one in halves, of the data of the first call of each op that a variant could serve.
 */
#ifndef COLLFORGE_CHECK_OPS_H_INCLUDED
#define COLLFORGE_CHECK_OPS_H_INCLUDED

#include "base/cf.h"

/* Of a collective with an op. Local. Warns with the name of the op's function, if it can be found. */
void cf_check_op(int collective, const struct cf_args *args);

#endif
