/* COLLFORGE_FORCE. */
#ifndef COLLFORGE_FORCE_H_INCLUDED
#define COLLFORGE_FORCE_H_INCLUDED

#include "winners/rules.h"

/*
 * Reads `allreduce=full_lane[segment_bytes=65536];*=hierarchical` and adds a winner for every
 * layout and size of each collective named. A collective's own entry comes before `*`, which stands
 * for the collectives that its choice exists for; of two entries alike the later one counts.
 * Returns false, with the reason in why, for anything else; nothing is added then.
 */
bool cf_force_parse(const char *text, struct cf_winners *winners, char *why, size_t whysize);

#endif
