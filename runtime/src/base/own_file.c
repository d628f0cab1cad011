#include "base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int cf_own_file_open(const char *path, int flags) {
    return open(path,
                flags | O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
                    O_CLOEXEC,
                0640);
}

static bool is_fit(int file, size_t length) {
    struct stat status;
    struct rlimit limit;
    if (fstat(file, &status) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return false;
    }
    /* A link to another file of this user could be planted. */
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink != 1) {
        errno = EPERM;
        return false;
    }
    if (limit.rlim_cur != RLIM_INFINITY &&
        (rlim_t)status.st_size + (rlim_t)length > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    return true;
}

bool cf_own_file_write(int file, const char *text, size_t length) {
    bool good = is_fit(file, length);
    if (good) {
        errno = ENOSPC; /* of a write that is not whole */
        good = write(file, text, length) == (ssize_t)length;
    }
    const int err = errno;
    good = close(file) == 0 && good;
    errno = err;
    return good;
}

void cf_own_file_clean(char *text) {
    for (char *c = text; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') {
            *c = ' ';
        }
    }
}

void cf_own_file_library(const char *ends, char *text, size_t size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    (void)PMPI_Get_library_version(version, &length);
    version[strcspn(version, ends)] = '\0';
    (void)snprintf(text, size, "%s", version);
    cf_own_file_clean(text);
}

void cf_own_file_date(char text[32]) {
    struct tm parts;
    const time_t now = time(NULL);
    text[0] = '\0';
    if (gmtime_r(&now, &parts) != NULL) {
        (void)strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
}
