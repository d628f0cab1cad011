/* Which build of this library a process runs. */
#ifndef COLLFORGE_IDENTITY_H_INCLUDED
#define COLLFORGE_IDENTITY_H_INCLUDED

enum { CF_IDENTITY_SIZE = 129 };

/*
 * Writes the identity of the linked file, in hexadecimal digits: the linker's hash of all of its
 * contents, so of every source, header, flag and compiler that matters. Where the linker has left
 * none, that of the generated sources.
 */
void cf_identity(char text[CF_IDENTITY_SIZE]);

#endif
