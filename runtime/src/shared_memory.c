#define _DEFAULT_SOURCE /* madvise */
#include "shared_memory.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

size_t cf_shared_memory_room(void) {
    struct statvfs space;

    return statvfs("/dev/shm", &space) == 0 ? (size_t)space.f_bavail * (size_t)space.f_frsize
                                            : SIZE_MAX;
}

bool cf_shared_memory_populate(void *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)memory / page * page;
    const size_t length = (uintptr_t)memory + bytes - first;

    if (madvise((void *)first, length, MADV_POPULATE_WRITE) == 0) {
        return true;
    }
    for (size_t at = 0; at < bytes && errno == EINVAL; at += page) {
        ((volatile char *)memory)[at] = 0;
    }
    return errno == EINVAL;
}

bool cf_shared_memory_is_unified(MPI_Win window) {
    int *model = NULL;
    int found = 0;

    return PMPI_Win_set_errhandler(window, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
           PMPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &found) == MPI_SUCCESS && found &&
           *model == MPI_WIN_UNIFIED;
}
