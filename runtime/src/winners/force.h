/* COLLFORGE_FORCE. */
#ifndef COLLFORGE_FORCE_H_INCLUDED
#define COLLFORGE_FORCE_H_INCLUDED

#include "winners/stored.h"

/*
 * Parses `allreduce=full_lane[segment_bytes=65536];*=hierarchical`. Adds a winner for every layout
 * and size of each collective named. `*` means all collectives that have this variant and no entry
 * of their own. Of two equal names the later one counts. If anything is malformed, returns false
 * with the reason in why, and adds nothing.
 */
bool cf_force_parse(const char *text, struct cf_winners *winners, char *why, size_t whysize);

#endif
