/*
 * COLLFORGE_REPRODUCIBLE: one choice for all sizes of a reduction on a communicator, whose order of
 * combining depends on the ranks alone. So an element of the result has the same bits in vectors of
 * any length, in every call.
 */
#ifndef COLLFORGE_FIXED_ORDER_H_INCLUDED
#define COLLFORGE_FIXED_ORDER_H_INCLUDED

#include "base/cf.h"

/* Whether the choice applies, with an op that commutes or not, and keeps such an order. */
bool cf_order_is_fixed(const struct cf_choice *choice, const struct cf_facts *facts);
/* The first choice of the collective that does, or else the first that does with ops that commute,
 * whether it is fast or not; variant NULL: none. */
void cf_order_choose(int collective, const struct cf_facts *facts, struct cf_choice *choice);
/* Warns, once in a process, that native serves a reduction because its variant cannot be set up on
 * a communicator of this layout. */
void cf_order_warn(const char *collective, const char *layout);

#endif
