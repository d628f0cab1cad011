/* The node's shared memory, for code that allocates MPI windows. */
#ifndef COLLFORGE_SHARED_MEMORY_H_INCLUDED
#define COLLFORGE_SHARED_MEMORY_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/* Free bytes where shared-memory windows are stored; 0 if unknown. */
size_t cf_shared_memory_room(void);

/* Whether all ranks of the communicator, which are on one node, have the same file system there,
 * the same process numbers and the same setting of the MPI library. Containers may have their own.
 * Collective; MPI_Win_allocate_shared could fail on some ranks and wait on the others, or crash. */
bool cf_shared_memory_is_common(MPI_Comm node_comm);

/* Whether this process may have a window of this size: its limits of address space, of files and
 * of open files. Local: where one may not, all must stay away from MPI_Win_allocate_shared. */
bool cf_shared_memory_can_map(size_t bytes);

/* Allocates the pages of this memory now, on this process's NUMA node. Its contents become
 * undefined. Without this a later access could kill the program when the file system is full. False
 * if there are too few pages. */
bool cf_shared_memory_populate(void *memory, size_t bytes);
/* The same for kernels before 5.14, which cannot populate. */
bool cf_shared_memory_write(void *memory, size_t bytes);

/* Whether the window has the unified memory model, in which loads and stores of processes see each
 * other as those of threads. Makes the window return errors. */
bool cf_shared_memory_is_unified(MPI_Win window);

#endif
