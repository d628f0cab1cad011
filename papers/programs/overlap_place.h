/* The cores of overlap.c: how many there are, and one left to the threads of the MPI library. */
#ifndef COLLFORGE_OVERLAP_PLACE_H_INCLUDED
#define COLLFORGE_OVERLAP_PLACE_H_INCLUDED

#include <stdbool.h>

#include "clock.h"

struct place {
    int spare; /* cores of a rank beyond one for each thread that computes, on the fullest machine;
                * -1: more threads compute than it has cores */
    int started; /* threads that MPI_Init has started, on the rank with the fewest */
    bool apart;  /* each of these is bound, on all ranks, to cores on which nothing computes */
};

/*
 * apart: binds the calling thread, and by that those that it starts later, to the first `threads`
 * cores of this process, and the others to the rest. It does nothing unless every rank has cores of
 * its own and one more than that. Collective; before OpenMP has started threads.
 */
struct place place_threads(const struct clock *clock, int threads, bool apart);

#endif
