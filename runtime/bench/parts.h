/* Communicators into which the job is divided, and which all call at once (--parts). */
#ifndef COLLFORGE_BENCH_PARTS_H_INCLUDED
#define COLLFORGE_BENCH_PARTS_H_INCLUDED

#include "bench.h"

/*
 * Makes this rank's part the tested communicator, and names the layout 4x2/4x1: parts of four nodes
 * with one rank each, of a job of four nodes with two ranks each. False on all ranks, with the
 * reason in `why`, if the job's layout is not regular or no multiple of the parts'.
 */
bool parts_create(struct bench *bench, char *why, size_t size);
void parts_free(struct bench *bench);

#endif
