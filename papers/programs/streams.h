/*
 * MPICH's streams (version 4.1 and later), in the place of the endpoints of Zambre,
 * Chandramowlishwaran and Balaji (2020). A stream has a VCI to itself, for which MPICH takes no
 * lock, because only one thread at a time may use a stream. With a library that has none, a program
 * that makes one says so and ends.
 */
#ifndef STREAMS_H_INCLUDED
#define STREAMS_H_INCLUDED

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef MPIX_STREAM_NULL
typedef int MPIX_Stream;

/* Of all ranks, without MPI_Abort, whose words might come first. */
static inline int no_streams(void) {
    (void)fprintf(stderr, "this MPI library has no streams (MPIX_Stream_create)\n");
    MPI_Finalize();
    exit(2);
}

#define MPIX_Stream_create(info, stream) ((void)(stream), no_streams())
#define MPIX_Stream_free(stream) ((void)(stream), no_streams())
#define MPIX_Stream_comm_create(...) no_streams()
#define MPIX_Stream_comm_create_multiplex(...) no_streams()
#define MPIX_Stream_progress(stream) ((void)(stream), no_streams())
#define MPIX_Stream_isend(...) no_streams()
#define MPIX_Stream_irecv(...) no_streams()
#endif

/* Of all ranks, without another thread in MPI. What was sent over a stream may leave only when that
 * stream makes progress, which MPICH does in calls on the stream alone. */
static inline void barrier_with(const MPIX_Stream *streams, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        for (int i = 0; i < count; i++) {
            MPIX_Stream_progress(streams[i]);
        }
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}

#endif
