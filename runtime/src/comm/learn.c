#include "comm/learn.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/hash.h"
#include "base/own_file.h"
#include "winners/choice.h"

enum { MOST_LESSONS = 256, MOST_PAIRS = 1000, MOST_TEXT = 1 << 16, SLOTS = 64, MOST_PATH = 4096 };

/* What was said of a choice on the communicators of a layout. */
struct note {
    struct cf_lesson lesson; /* the first one */
    /* Of the verdicts against it, and of those for it: */
    int verdicts[2];
    int64_t pairs[2];
    double seconds[2][2]; /* sums */
};

static struct {
    pthread_mutex_t mutex;
    char system[256]; /* empty: nothing is noted */
    struct note *notes;
    int count;
} learnt = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void cf_learn_begin(const char *system) {
    if (cf_variable(CF_VARIABLE_LEARN) != NULL) {
        (void)snprintf(learnt.system, sizeof learnt.system, "%s", system);
        cf_own_file_clean(learnt.system);
    }
}

static bool are_of_one_problem(const struct cf_lesson *a, const struct cf_lesson *b) {
    return a->choice.variant == b->choice.variant && a->bytes == b->bytes && a->again == b->again &&
           strcmp(a->layout, b->layout) == 0 &&
           memcmp(a->choice.parameter, b->choice.parameter, sizeof a->choice.parameter) == 0;
}

void cf_learn_note(const struct cf_lesson *lesson) {
    if (learnt.system[0] == '\0') {
        return;
    }
    (void)pthread_mutex_lock(&learnt.mutex);
    if (learnt.notes == NULL) {
        learnt.notes = calloc(MOST_LESSONS, sizeof *learnt.notes);
    }
    int i = 0;
    while (i < learnt.count && !are_of_one_problem(&learnt.notes[i].lesson, lesson)) {
        i++;
    }
    if (learnt.notes != NULL && i < MOST_LESSONS) {
        struct note *note = &learnt.notes[i];
        if (i == learnt.count) {
            note->lesson = *lesson;
            learnt.count++;
        }
        note->verdicts[lesson->kept]++;
        note->pairs[lesson->kept] += lesson->pairs;
        note->seconds[lesson->kept][0] += lesson->seconds[0];
        note->seconds[lesson->kept][1] += lesson->seconds[1];
    }
    (void)pthread_mutex_unlock(&learnt.mutex);
}

/* What most of the communicators say, in the mean; one half against it is against it. */
static struct cf_lesson sum_up(const struct note *note) {
    struct cf_lesson lesson = note->lesson;
    const bool kept = note->verdicts[true] > note->verdicts[false];
    lesson.kept = kept;
    lesson.pairs = (int)(note->pairs[kept] < MOST_PAIRS ? note->pairs[kept] : MOST_PAIRS);
    lesson.seconds[0] = note->seconds[kept][0] / note->verdicts[kept];
    lesson.seconds[1] = note->seconds[kept][1] / note->verdicts[kept];
    return lesson;
}

/* ---- the file -------------------------------------------------------------------------------- */

struct text {
    char *bytes; /* [MOST_TEXT] */
    size_t used;
};

/* All of it or nothing. */
__attribute__((format(printf, 2, 3))) static bool add(struct text *text, const char *format, ...) {
    va_list arguments;
    const size_t room = MOST_TEXT - sizeof "]}\n" - text->used;
    va_start(arguments, format);
    const int length = vsnprintf(text->bytes + text->used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room) {
        return false;
    }
    text->used += (size_t)length;
    return true;
}

/* Whole nanoseconds, so that no locale's comma gets into the number. */
static int64_t nanoseconds(double seconds) {
    return seconds > 1e-9 ? seconds < 1e9 ? (int64_t)(1e9 * seconds) : INT64_C(1000000000000000000)
                          : 1;
}

static bool add_lesson(struct text *text, const struct cf_lesson *lesson, bool first) {
    char name[256] = "";
    const struct cf_variant *variant = lesson->choice.variant;
    cf_choice_format(&lesson->choice, name, sizeof name);
    return add(
        text,
        "%s{\"layout\":\"%s\",\"collective\":\"%s\",\"variant\":\"%s\",\"fingerprint\":\"%s\","
        "\"bytes\":%" PRId64 ",\"native_ns\":%" PRId64 ",\"variant_ns\":%" PRId64
        ",\"pairs\":%d,\"again\":%s,\"kept\":%s}",
        first ? "\n" : ",\n", lesson->layout, cf_collectives[variant->collective].name, name,
        variant->fingerprint, lesson->bytes, nanoseconds(lesson->seconds[0]),
        nanoseconds(lesson->seconds[1]), lesson->pairs, lesson->again ? "true" : "false",
        lesson->kept ? "true" : "false");
}

/* Differs between jobs, so that two that learnt the same are two. */
static uint64_t nonce(void) {
    struct timespec now = {0};
    char host[256] = "";
    const long process = (long)getpid();
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gethostname(host, sizeof host - 1);
    uint64_t hash = cf_hash(CF_HASH_BEGIN, &now.tv_sec, sizeof now.tv_sec);
    hash = cf_hash(hash, &now.tv_nsec, sizeof now.tv_nsec);
    hash = cf_hash(hash, &process, sizeof process);
    return cf_hash(hash, host, strlen(host));
}

static bool fill(struct text *text, uint64_t number) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    char date[32];
    cf_own_file_library("\n", library, sizeof library);
    cf_own_file_date(date);
    if (!add(
            text,
            "{\"collforge\":1,\"version\":\"%s\",\"system\":\"%s\",\"mpi\":\"%s\",\"ended\":\"%s\","
            "\"nonce\":\"%016" PRIx64 "\",\"verdicts\":[",
            COLLFORGE_VERSION, learnt.system, library, date, number)) {
        return false;
    }
    for (int i = 0; i < learnt.count; i++) {
        const struct cf_lesson lesson = sum_up(&learnt.notes[i]);
        if (!add_lesson(text, &lesson, i == 0)) {
            break;
        }
    }
    memcpy(text->bytes + text->used, "]}\n", sizeof "]}\n");
    text->used += sizeof "]}\n" - 1;
    return true;
}

/* By another name first, so that nobody takes in a part of it. Two jobs that end together may have
 * one name, and then one of their files is lost. */
static void write_file(const struct text *text, uint64_t number) {
    char path[2][MOST_PATH];
    const char *folder = cf_variable(CF_VARIABLE_LEARN);
    for (int i = 0; i < 2; i++) {
        const int length =
            snprintf(path[i], MOST_PATH, "%s/%lu-%02u.%s", folder, (unsigned long)geteuid(),
                     (unsigned)(number % SLOTS), i == 0 ? "part" : "json");
        if (length >= MOST_PATH) {
            return;
        }
    }
    (void)unlink(path[0]);
    const int file = cf_own_file_open(path[0], O_EXCL);
    if (file >= 0 &&
        (!cf_own_file_write(file, text->bytes, text->used) || rename(path[0], path[1]) != 0)) {
        (void)unlink(path[0]);
    }
}

void cf_learn_end(void) {
    struct text text = {0};
    const uint64_t number = nonce();
    if (learnt.count > 0 && (text.bytes = malloc(MOST_TEXT)) != NULL && fill(&text, number)) {
        write_file(&text, number);
    }
    free(text.bytes);
    free(learnt.notes);
    learnt.notes = NULL;
    learnt.count = 0;
    learnt.system[0] = '\0';
}
