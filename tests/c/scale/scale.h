/*
 * An MPI library of one process that pretends to be rank 0 of as many ranks as one likes, and
 * counts what the runtime asks of it. It says nothing about the time that a network takes.
 *
 * What a collective is taken to cost each rank: ceil(log2 p) steps; and in bytes sent, on the
 * average of the ranks, bcast its vector, allreduce its vector in each step, allgather (p - 1)
 * times its block, MPI_Comm_split an allgather of colour and key.
 */
#ifndef COLLFORGE_TESTS_SCALE_H_INCLUDED
#define COLLFORGE_TESTS_SCALE_H_INCLUDED

#include <mpi.h>

enum { RANKS_PER_NODE = 125 };

/* What was asked for since the process began. Calls of the program itself (communicators that it
 * makes, reductions other than MPI_MIN) are not in it. */
struct counts {
    long long collectives;
    long long steps;
    long long bytes;    /* sent by a rank */
    long long compared; /* ranks that Open MPI's translate_ranks would have looked at */
    long long made;     /* hidden communicators */
};

extern struct counts counts;

/* Before MPI_Init. */
void pretend(int ranks);

/* What the next allgathers of one int bring: the nodes of the ranks, or the halves of the nodes. */
extern int gather_halves;

/* A communicator of the program's own, of the ranks first, first + step, ... of the world. */
MPI_Comm make_comm(int size, int first, int step);

#endif
