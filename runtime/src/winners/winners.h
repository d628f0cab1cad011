/* Reading the winner table of a Collforge database. */
#ifndef COLLFORGE_WINNERS_H_INCLUDED
#define COLLFORGE_WINNERS_H_INCLUDED

#include "winners/rules.h"

/*
 * Adds the winners that the database at path holds for a system and for the MPI library this
 * runtime is built with. system: its name; NULL for the one whose host pattern matches this host,
 * else the only one. To be called on one rank. All or nothing: a database with a single row that
 * does not fit is of no use, because nobody knows what the others rest on. Returns false then, with
 * the reason and the way out in why.
 */
bool cf_winners_load(const char *path, const char *system, struct cf_winners *winners, char *why,
                     size_t whysize);

#endif
