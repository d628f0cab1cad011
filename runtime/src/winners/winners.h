/* Reads the winners of a Collforge database, or of a published file. */
#ifndef COLLFORGE_WINNERS_H_INCLUDED
#define COLLFORGE_WINNERS_H_INCLUDED

#include "winners/stored.h"

/*
 * Adds the winners that the file at path has for a system and for this runtime's MPI library. The
 * file is a database, or one that `collforge publish` has written. sha256: the digest that it must
 * have, which only a published one can; NULL: any. system is its name; NULL: the system whose host
 * pattern matches this host, or else the only one. Call on one rank. All or nothing: one invalid
 * row makes the whole file unusable, because the origin of the others is doubtful, too. Returns
 * false then, with the reason and a remedy in why.
 */
bool cf_winners_load(const char *path, const char *sha256, const char *system,
                     struct cf_winners *winners, char *why, size_t whysize);

#endif
