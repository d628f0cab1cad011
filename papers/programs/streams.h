/*
 * MPICH's streams (version 4.1 and later), in the place of the endpoints of Zambre,
 * Chandramowlishwaran and Balaji (2020). A stream has a VCI to itself, for which MPICH takes no lock,
 * because only one thread at a time may use a stream. With a library that has none, a program that
 * makes one says so and ends.
 */
#ifndef STREAMS_H_INCLUDED
#define STREAMS_H_INCLUDED

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef MPIX_STREAM_NULL
typedef int MPIX_Stream;

static inline int no_streams(void) {
    (void)fprintf(stderr, "this MPI library has no streams (MPIX_Stream_create)\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
    return MPI_ERR_OTHER;
}

#define MPIX_Stream_create(info, stream) ((void)(stream), no_streams())
#define MPIX_Stream_free(stream) ((void)(stream), no_streams())
#define MPIX_Stream_comm_create(...) no_streams()
#define MPIX_Stream_comm_create_multiplex(...) no_streams()
#define MPIX_Stream_isend(...) no_streams()
#define MPIX_Stream_irecv(...) no_streams()
#endif

#endif
