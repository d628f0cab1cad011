/* Files that a job leaves in a folder to which other users may write. */
#ifndef COLLFORGE_OWN_FILE_H_INCLUDED
#define COLLFORGE_OWN_FILE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/* Opens path for writing at its end, made if it is not there; flags are added to those of open(2).
 * Follows no link. -1 and errno on failure. */
int cf_own_file_open(const char *path, int flags);
/* Writes length bytes at once, if the open file is this user's own and nothing else, and can take
 * them without a signal; closes it. False, with errno, if not. */
bool cf_own_file_write(int file, const char *text, size_t length);
/* The MPI library's version up to the first of these characters, fit for a JSON string. */
void cf_own_file_library(const char *ends, char *text, size_t size);
/* Makes text fit for a JSON string. */
void cf_own_file_clean(char *text);
/* The time in UTC as 2026-11-27T20:00:00Z. */
void cf_own_file_date(char text[32]);

#endif
