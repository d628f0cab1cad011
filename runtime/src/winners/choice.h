/* The text form of a choice, used in case strings, stored winners and COLLFORGE_FORCE. */
#ifndef COLLFORGE_CHOICE_H_INCLUDED
#define COLLFORGE_CHOICE_H_INCLUDED

#include "winners/winners.h"

/*
 * Parses "native", "hierarchical" or "full_lane[lane_algorithm=chain,segment_bytes=4096]" (length
 * bytes of text) for a collective. Omitted parameters take the first value of their domain. Returns
 * false for an unknown family, parameter or value, with the reason in why (whysize bytes).
 */
bool cf_choice_parse(const char *text, size_t length, int collective, struct cf_choice *choice,
                     char *why, size_t whysize);
/* Writes the canonical text: all parameters, in the order of the spec. */
void cf_choice_format(const struct cf_choice *choice, char *text, size_t size);
/* The index in cf_collectives of the collective with this name (length bytes), or -1. */
int cf_collective_find(const char *name, size_t length);

/* ---- COLLFORGE_FORCE ---- */

/*
 * Parses `allreduce=full_lane[segment_bytes=65536];*=hierarchical`. Adds a winner for every layout
 * and size of each collective named. `*` means all collectives that have this variant and no entry
 * of their own. Of two equal names the later one counts. If anything is malformed, returns false
 * with the reason in why, and adds nothing.
 */
bool cf_force_parse(const char *text, struct cf_winners *winners, char *why, size_t whysize);

#endif
