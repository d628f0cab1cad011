/* Whose MPI functions the process calls. */
#ifndef COLLFORGE_LIBRARY_H_INCLUDED
#define COLLFORGE_LIBRARY_H_INCLUDED

#include <stdbool.h>

/*
 * Whether the MPI library of the program is the one that this library was built for, so that
 * handles mean the same in both. To be asked before the first call with a handle, and before
 * MPI_Init, too. Warns once where it is not.
 */
bool cf_library_is_ours(void);

/* The file that the program's MPI functions are in, as it was loaded; NULL where that is not known.
 */
const char *cf_library_file(void);

#endif
