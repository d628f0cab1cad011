/*
 * The file that `collforge publish` writes: winners alone, as text that is read without SQLite
 * (db/published.py writes it). Lines of fields that are separated by tabs:
 *
 *   collforge winners 1                               the format's version
 *   system   NAME  PATTERN                            every system first, with its host pattern
 *   variant  COLLECTIVE  VARIANT  FINGERPRINT         they are numbered from 0
 *   winners  SYSTEM  MPI LIBRARY                      what follows is for these two; the first line
 *                                                     of the library's version
 *   layout   NAME                                     "~4x2" is a point of the map; these come last
 *   BYTES  NUMBER OF THE VARIANT [tie]                a winner
 *   end  NUMBER OF WINNERS                            the last line
 *
 * All variants are verified: else the file is not written.
 */
#ifndef COLLFORGE_PUBLISHED_H_INCLUDED
#define COLLFORGE_PUBLISHED_H_INCLUDED

#include "winners/load.h"

/* Whether the file begins like a published one. */
bool cf_published_is(const char *path);
/* Adds the wanted winners. sha256: the digest that the file must have; NULL: any. */
bool cf_published_load(struct cf_load *load, const char *sha256);

#endif
