/*
 * SMPI of SimGrid, which runs an MPI program in simulated time. Each rank is a coroutine of one
 * process: time passes in MPI's functions and in sleep only, so that a loop that waits without
 * either never ends. Its clock_gettime and nanosleep are those of the simulation.
 */
#include <mpi.h>

#if defined(SMPI_H)

#include <string.h>
#include <time.h>

#include "base/library.h"

static bool wrote(const char *version) {
    return strncmp(version, "SMPI", strlen("SMPI")) == 0;
}

static const char *shared_folder(void) {
    return "/dev/shm";
}

static void pass(double seconds) {
    const time_t whole = (time_t)seconds;
    const struct timespec span = {.tv_sec = whole,
                                  .tv_nsec = (long)(1e9 * (seconds - (double)whole))};
    (void)nanosleep(&span, NULL);
}

const struct cf_library cf_library = {
    .name = "smpi",
    .title = "SimGrid's SMPI",
    .wrote = wrote,
    .shared_folder = shared_folder,
    .pass = pass,
};

#endif
