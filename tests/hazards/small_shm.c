/*
 * A /dev/shm that is nearly full while a job runs: the program fills it, so it has to be one of its own.
 * Calls are right in any case; whether a communicator got a window tells the room that its first calls take.
 * OLD_KERNEL in the environment: one from before 5.14, which cannot populate memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POPULATE_WRITE = 23, WORDS = 40000 };

/* Of room that there is not: as if others took it between the question and the use. */
static int lying = 0;

static int rank, size, bad = 0;

/* ---- what the libraries ask the system ------------------------------------------------------- */

int statfs(const char *path, struct statfs *space) {
    const int done = (int)syscall(SYS_statfs, path, space);

    if (done == 0 && lying)
        space->f_bfree = space->f_bavail = 1 << 20;
    return done;
}

int statfs64(const char *path, struct statfs64 *space) {
    return statfs(path, (struct statfs *)space);
}

int statvfs(const char *path, struct statvfs *space) {
    struct statfs found;
    const int done = statfs(path, &found);

    memset(space, 0, sizeof *space);
    if (done == 0) {
        space->f_bsize = space->f_frsize = (unsigned long)found.f_bsize;
        space->f_blocks = found.f_blocks;
        space->f_bfree = found.f_bfree;
        space->f_bavail = found.f_bavail;
    }
    return done;
}

int statvfs64(const char *path, struct statvfs64 *space) {
    return statvfs(path, (struct statvfs *)space);
}

int madvise(void *memory, size_t bytes, int advice) {
    if (advice == POPULATE_WRITE && getenv("OLD_KERNEL") != NULL) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, memory, bytes, advice);
}

/* ---- room -------------------------------------------------------------------------------------- */

static long room(void) {
    struct statfs space;

    PMPI_Barrier(MPI_COMM_WORLD);
    syscall(SYS_statfs, "/dev/shm", &space);
    PMPI_Barrier(MPI_COMM_WORLD);
    return (long)space.f_bavail * space.f_bsize;
}

/* Leaves this much. */
static void leave(long bytes) {
    static int file = -1;

    if (rank == 0) {
        if (file < 0)
            file = open("/dev/shm/filler", O_CREAT | O_RDWR, 0600);
        bad += ftruncate(file, 0) != 0;
    }
    const long most = room();
    if (rank == 0 && bytes < most)
        bad += posix_fallocate(file, 0, most - bytes) != 0;
    const long left = room();
    bad += left > bytes || left < bytes / 2;
}

/* Calls on a new communicator; the room that it has taken. */
static long taken(void) {
    static int a[WORDS], b[WORDS];
    const long before = room();
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int words = 1; words <= WORDS; words *= 10) {
        for (int w = 0; w < words; w++)
            a[w] = rank + w;
        MPI_Allreduce(a, b, words, MPI_INT, MPI_SUM, comm);
        for (int w = 0; w < words; w++)
            bad += b[w] != size * w + size * (size - 1) / 2;
        MPI_Bcast(a, words, MPI_INT, size - 1, comm);
        for (int w = 0; w < words; w++)
            bad += a[w] != size - 1 + w;
        MPI_Barrier(comm);
    }
    return before - room();
}

/* MPI's own segments get their pages when they are first used. */
static void warm_up(void) {
    static char a[WORDS * 4], b[WORDS * 4];

    for (int i = 0; i < 50; i++)
        for (int bytes = 1; bytes <= WORDS; bytes *= 10)
            PMPI_Alltoall(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void expect(const char *what, int holds) {
    if (!holds && rank == 0)
        printf("%s\n", what);
    bad += !holds;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 4)
        MPI_Abort(MPI_COMM_WORLD, 1);
    warm_up();
    const long window = taken();
    expect("enough room", window > 100 << 10);
    leave(window / 2);
    expect("too little", taken() < window / 4);
    leave(window * 5 / 2);
    expect("enough for one", taken() > window * 3 / 4);
    expect("but not for two", taken() < window / 4);
    leave(window * 3 / 5);
    lying = 1;
    expect("less than it says", taken() < window / 4);
    lying = 0;
    leave(window * 5 / 2);
    expect("enough again", taken() > window * 3 / 4);
    PMPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(bad ? "FAILED" : "passed");
    return MPI_Finalize();
}
