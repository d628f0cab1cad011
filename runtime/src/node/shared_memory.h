/* What this node's shared memory can do, for those who allocate windows. */
#ifndef COLLFORGE_SHARED_MEMORY_H_INCLUDED
#define COLLFORGE_SHARED_MEMORY_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes that are free where windows have their memory; SIZE_MAX where that is not known. */
size_t cf_shared_memory_room(void);

/* Gets the pages of this memory now, near this process; its contents are undefined then. Touching
 * it later could end the program where the file system is full. False when there are none. */
bool cf_shared_memory_populate(void *memory, size_t bytes);
/* The same for kernels that cannot populate: those before 5.14. */
bool cf_shared_memory_write(void *memory, size_t bytes);

/* Whether loads and stores see each other as in the memory of threads; makes the window return
 * errors. */
bool cf_shared_memory_is_unified(MPI_Win window);

#endif
