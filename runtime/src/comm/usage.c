#include "comm/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/runtime.h"

enum { MOST_FAMILIES = 32, SHOWN = 3, LINE = 1024 };

/* Of a job; so that casts are defined, whatever was read. */
static const double most_seconds = 1e12;

static struct {
    pthread_mutex_t mutex;
    int64_t calls;
    int64_t served;
    int64_t started, started_served; /* nonblocking ones */
    int64_t known;                   /* of those served: with a known saving */
    double seconds;
    double estimate, least, most; /* saved, in seconds */
    struct family {
        const char *name;
        int64_t calls;
    } families[MOST_FAMILIES];
} usage = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void count_family(const char *name, int64_t calls) {
    for (int i = 0; i < MOST_FAMILIES; i++) {
        struct family *family = &usage.families[i];
        if (family->name == NULL || strcmp(family->name, name) == 0) {
            family->name = name;
            family->calls += calls;
            return;
        }
    }
}

void cf_usage_served(const struct cf_choice *choice, int64_t calls) {
    const struct cf_saving *saving = &choice->saving;
    (void)pthread_mutex_lock(&usage.mutex);
    usage.served += calls;
    if (saving->estimate != 0 || saving->least != 0 || saving->most != 0) {
        usage.known += calls;
    }
    usage.estimate += (double)calls * saving->estimate;
    usage.least += (double)calls * saving->least;
    usage.most += (double)calls * saving->most;
    count_family(choice->variant->family, calls);
    (void)pthread_mutex_unlock(&usage.mutex);
}

void cf_usage_called(int64_t calls, double seconds) {
    (void)pthread_mutex_lock(&usage.mutex);
    usage.calls += calls;
    usage.seconds += seconds;
    (void)pthread_mutex_unlock(&usage.mutex);
}

void cf_usage_started(bool served) {
    (void)pthread_mutex_lock(&usage.mutex);
    usage.started++;
    usage.started_served += served;
    (void)pthread_mutex_unlock(&usage.mutex);
}

/* ---- the last line --------------------------------------------------------------------------- */

static int by_calls(const void *left, const void *right) {
    const int64_t a = ((const struct family *)left)->calls;
    const int64_t b = ((const struct family *)right)->calls;
    return (a < b) - (a > b);
}

static void write_saving(char *text, size_t size) {
    if (usage.known == 0) {
        (void)snprintf(text, size, "time saved unknown (no times were measured for them)");
        return;
    }
    size_t used = (size_t)snprintf(text, size, "estimated to have saved %.3g s (%.3g to %.3g)",
                                   usage.estimate, usage.least, usage.most);
    if (usage.known < usage.served && used < size) {
        (void)snprintf(text + used, size - used, " in the %" PRId64 " of them with measured times",
                       usage.known);
    }
}

static void log_line(void) {
    char families[256] = "";
    char saving[160] = "";
    size_t used = 0;
    if (usage.started > 0) {
        cf_log(1, "on rank 0: variants served %" PRId64 " of %" PRId64 " nonblocking calls",
               usage.started_served, usage.started);
    }
    if (usage.calls == 0) {
        cf_log(1, "on rank 0: no call was of a collective that is tuned for its layout");
        return;
    }
    if (usage.served == 0) {
        cf_log(1, "on rank 0: variants served none of %" PRId64 " calls of tuned collectives",
               usage.calls);
        return;
    }
    qsort(usage.families, MOST_FAMILIES, sizeof *usage.families, by_calls);
    for (int i = 0; i < SHOWN && usage.families[i].calls > 0 && used < sizeof families; i++) {
        used +=
            (size_t)snprintf(families + used, sizeof families - used, "%s%s %" PRId64,
                             i == 0 ? "" : ", ", usage.families[i].name, usage.families[i].calls);
    }
    write_saving(saving, sizeof saving);
    cf_log(1,
           "on rank 0: variants served %" PRId64 " of %" PRId64
           " calls of tuned collectives (%s), %s",
           usage.served, usage.calls, families, saving);
}

/* ---- the line of COLLFORGE_USAGE ------------------------------------------------------------- */

/* With a point, whatever the program's locale. */
static const char *decimal(double seconds, char text[32]) {
    const double size = seconds < 0 ? -seconds : seconds;
    const int64_t micro = (int64_t)((size < most_seconds ? size : most_seconds) * 1e6 + 0.5);
    (void)snprintf(text, 32, "%s%" PRId64 ".%06" PRId64, seconds < 0 ? "-" : "", micro / 1000000,
                   micro % 1000000);
    return text;
}

static int write_line(char line[LINE], const char *layout) {
    char number[4][32];
    char saved[128] = "null";
    char library[64];
    char date[32];
    int ranks = 0;
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    cf_own_file_date(date);
    cf_own_file_library(",\n", library, sizeof library);
    if (usage.known > 0) {
        (void)snprintf(saved, sizeof saved, "[%s,%s,%s]", decimal(usage.least, number[0]),
                       decimal(usage.estimate, number[1]), decimal(usage.most, number[2]));
    }
    return snprintf(line, LINE,
                    "{\"date\":\"%s\",\"mpi\":\"%s\",\"layout\":\"%s\",\"ranks\":%d,"
                    "\"calls\":%" PRId64 ",\"served\":%" PRId64 ",\"seconds\":%s,\"saved\":%s}\n",
                    date, library, layout == NULL ? "" : layout, ranks, usage.calls, usage.served,
                    decimal(usage.seconds, number[3]), saved);
}

/* One write, so that lines of jobs that end together do not mix. */
static void append_line(const char *folder, const char *layout) {
    char line[LINE];
    char path[LINE];
    const int length = write_line(line, layout);
    const int needed =
        snprintf(path, sizeof path, "%s/%lu.jsonl", folder, (unsigned long)geteuid());
    errno = ENAMETOOLONG;
    const bool fits = length < LINE && needed < (int)sizeof path;
    const int file = fits ? cf_own_file_open(path, 0) : -1;
    if (file < 0 || !cf_own_file_write(file, line, (size_t)length)) {
        cf_warn("COLLFORGE_USAGE: cannot write %.300s: %s", path, strerror(errno));
    }
}

void cf_usage_tell(const char *layout) {
    const char *folder = cf_variable(CF_VARIABLE_USAGE);
    if (cf_runtime.counts) {
        log_line();
    }
    if (folder != NULL) {
        append_line(folder, layout);
    }
    usage.calls = usage.served = usage.known = 0;
    usage.seconds = usage.estimate = usage.least = usage.most = 0;
    memset(usage.families, 0, sizeof usage.families);
}
