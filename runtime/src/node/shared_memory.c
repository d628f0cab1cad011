#define _DEFAULT_SOURCE /* madvise */
#include "node/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/library.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

size_t cf_shared_memory_room(void) {
    struct statvfs space;

    return statvfs(cf_library.shared_folder(), &space) == 0
               ? (size_t)space.f_bavail * (size_t)space.f_frsize
               : SIZE_MAX;
}

/* Open MPI takes a segment for its own if its creator has the same process number, so ranks with
 * numbers of their own would read memory that is not there. */
bool cf_shared_memory_is_common(MPI_Comm node_comm) {
    enum { FACTS = 3 };
    struct stat folder = {0};
    struct stat numbers = {0};
    const bool there = stat(cf_library.shared_folder(), &folder) == 0;
    const bool known = stat("/proc/self/ns/pid", &numbers) == 0;
    const int64_t facts[FACTS] = {there ? (int64_t)folder.st_dev : -1,
                                  there ? (int64_t)folder.st_ino : -1,
                                  known ? (int64_t)numbers.st_ino : -1};
    int64_t mine[2 * FACTS];
    int64_t least[2 * FACTS];
    bool equal = true;

    for (int i = 0; i < FACTS; i++) {
        mine[i] = facts[i];
        mine[FACTS + i] = -facts[i];
    }
    if (PMPI_Allreduce(mine, least, 2 * FACTS, MPI_INT64_T, MPI_MIN, node_comm) != MPI_SUCCESS) {
        return false;
    }
    for (int i = 0; i < FACTS; i++) {
        equal = equal && least[i] == -least[FACTS + i];
    }
    return equal;
}

/* For kernels before 5.14, which cannot populate: writes a byte of each page. read() from /dev/zero
 * fails when there is no page, where a store would kill the process. */
bool cf_shared_memory_write(void *memory, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    bool good = zeros >= 0;

    for (size_t at = 0; good && at < bytes; at += page) {
        good = read(zeros, (char *)memory + at, 1) == 1;
    }
    good = good && (bytes == 0 || read(zeros, (char *)memory + bytes - 1, 1) == 1);
    if (zeros >= 0) {
        (void)close(zeros);
    }
    return good;
}

bool cf_shared_memory_populate(void *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)memory / page * page;
    const size_t length = (uintptr_t)memory + bytes - first;

    if (madvise((void *)first, length, MADV_POPULATE_WRITE) == 0) {
        return true;
    }
    return errno == EINVAL && cf_shared_memory_write(memory, bytes);
}

bool cf_shared_memory_is_unified(MPI_Win window) {
    int *model = NULL;
    int found = 0;

    return PMPI_Win_set_errhandler(window, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
           PMPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &found) == MPI_SUCCESS && found &&
           *model == MPI_WIN_UNIFIED;
}
