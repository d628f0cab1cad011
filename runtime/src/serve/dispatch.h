/* The parts of the dispatch that are not in the fast path. */
#ifndef COLLFORGE_DISPATCH_H_INCLUDED
#define COLLFORGE_DISPATCH_H_INCLUDED

#include "comm/comm.h"

/* What the rules of the communicator say for this many bytes; NULL: native. */
const struct cf_choice *cf_choose_bytes(const struct cf_state *state, int collective,
                                        int64_t bytes);

/* A choice is known by its address: its memory never holds another one while a communicator lives.
 */

/* What a wrapper does once it has chosen this for calls of so many bytes: for the timing driver,
 * which has no winners. CF_DECLINED: native would run. */
int cf_attempt_chosen(const struct cf_choice *choice, int collective, int64_t bytes,
                      const struct cf_args *args);

/* Whether the choice applies to calls of this many bytes with a commutative op. */
bool cf_applies_by_layout(const struct cf_choice *choice, const struct cf_layout *layout,
                          int64_t bytes);

#endif
