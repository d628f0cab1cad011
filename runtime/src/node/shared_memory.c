#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#include "node/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/library.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

size_t cf_shared_memory_room(void) {
    struct statvfs space;
    const char *folder = cf_library.shared_folder();

    return statvfs(folder, &space) == 0 && access(folder, R_OK | W_OK | X_OK) == 0
               ? (size_t)space.f_bavail * (size_t)space.f_frsize
               : 0;
}

/* The number of a namespace of this process: of its process numbers, or of its System V segments.
 */
static int64_t namespace_of(const char *kind) {
    char path[64];
    struct stat status = {0};
    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return stat(path, &status) == 0 ? (int64_t)status.st_ino : -1;
}

/*
 * Open MPI takes a segment for its own if its creator has the same process number, so ranks with
 * numbers of their own would read memory that is not there. Its user may choose System V segments.
 */
bool cf_shared_memory_is_common(MPI_Comm node_comm) {
    enum { FACTS = 5 };
    struct stat folder = {0};
    const bool there = stat(cf_library.shared_folder(), &folder) == 0;
    const bool numbered = cf_library.windows_by != NULL;
    const char *chosen = numbered ? cf_library.windows_by() : "";
    const int64_t facts[FACTS] = {(int64_t)folder.st_dev, (int64_t)folder.st_ino,
                                  numbered ? namespace_of("pid") : 0,
                                  *chosen != '\0' ? namespace_of("ipc") : 0,
                                  (int64_t)(cf_hash_text(CF_HASH_BEGIN, chosen) >> 1)};
    int64_t mine[2 * FACTS + 1] = {[2 * FACTS] = there};
    int64_t least[2 * FACTS + 1];
    bool equal = true;

    for (int i = 0; i < FACTS; i++) {
        mine[i] = facts[i];
        mine[FACTS + i] = -facts[i];
    }
    if (PMPI_Allreduce(mine, least, 2 * FACTS + 1, MPI_INT64_T, MPI_MIN, node_comm) !=
        MPI_SUCCESS) {
        return false;
    }
    for (int i = 0; i < FACTS; i++) {
        equal = equal && least[i] == -least[FACTS + i];
    }
    return equal && least[2 * FACTS] != 0;
}

/* What the MPI library needs beside the memory, generously: its own structures and open files. */
bool cf_shared_memory_can_map(size_t bytes) {
    enum { SPARE_BYTES = 1 << 24, SPARE_FILES = 8 };
    const size_t needed = 2 * bytes + SPARE_BYTES;
    struct rlimit files = {0};
    int opened[SPARE_FILES];
    bool good = true;
    void *memory =
        mmap(NULL, needed, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory != MAP_FAILED) {
        (void)munmap(memory, needed);
    }
    for (int i = 0; i < SPARE_FILES; i++) {
        opened[i] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        good = good && opened[i] >= 0;
    }
    for (int i = 0; i < SPARE_FILES; i++) {
        if (opened[i] >= 0) {
            (void)close(opened[i]);
        }
    }
    return good && memory != MAP_FAILED && getrlimit(RLIMIT_FSIZE, &files) == 0 &&
           (files.rlim_cur == RLIM_INFINITY || files.rlim_cur > needed);
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
