/* Which MPI library the process calls. */
#ifndef COLLFORGE_LIBRARY_H_INCLUDED
#define COLLFORGE_LIBRARY_H_INCLUDED

#include <stdbool.h>

/*
 * Whether the program uses the MPI library that this library was built for, so that handles have
 * the same meaning. Must be called before the first call with a handle; may be called before
 * MPI_Init. Warns once if not.
 */
bool cf_library_is_ours(void);

/* The loaded file with the program's MPI functions; NULL if unknown. */
const char *cf_library_file(void);

#endif
