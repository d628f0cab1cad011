/* The nonblocking collectives of overlap.c, on MPI_COMM_WORLD, with doubles. */
#ifndef COLLFORGE_OVERLAP_COLLECTIVES_H_INCLUDED
#define COLLFORGE_OVERLAP_COLLECTIVES_H_INCLUDED

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

struct collective {
    const char *name;
    void (*start)(int count, MPI_Request *request);
    bool blocks; /* a buffer has a block of each rank */
};

/* The one whose name are the first `length` characters; NULL for none. */
const struct collective *collective_find(const char *name, size_t length);
/* Bytes of a rank's largest buffer, and the largest count whose buffers have at most so many; 1 at
 * least. */
size_t collective_bytes(const struct collective *collective, long count);
long collective_count(const struct collective *collective, size_t bytes);
/* Makes buffers for this count. Not timed. */
void collective_prepare(const struct collective *collective, long count);
void collective_free(void);

#endif
