#include "comm/report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/now.h"
#include "winners/choice.h"

enum { THREADS = 64, LINE = 512 };

/* The call of a thread. Written by this thread only; version is odd while it writes. A thread that
 * ends gives it back. */
static struct slot {
    atomic_bool taken;
    atomic_uint version;
    unsigned reported; /* the version that the watching thread has printed */
    int length;        /* of text; 0: none */
    double begin;
    char text[LINE - 96];
} slots[THREADS];

static _Thread_local struct slot *own;
static pthread_key_t at_thread_end;

static struct {
    bool on;
    int seconds, signal;
    int rank;
    pthread_t thread;
    bool watches;
    bool ends;
    pthread_mutex_t mutex;
    pthread_cond_t end;
} report = {.mutex = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

bool cf_report_parse(const char *text, int *seconds, int *signal) {
    char *end = NULL;
    const long number = strtol(text, &end, 10);
    *seconds = end > text && number > 0 && number <= 1000000 ? (int)number : 0;
    *signal = 0;
    if (end > text && (*seconds == 0 || *end == '\0')) {
        return *seconds > 0;
    }
    if (end > text && *end++ != ',') {
        return false;
    }
    *signal = strcmp(end, "USR1") == 0 ? SIGUSR1 : strcmp(end, "USR2") == 0 ? SIGUSR2 : 0;
    return *signal != 0;
}

/* ---- what a thread is in --------------------------------------------------------------------- */

static void give_back(void *mine) {
    struct slot *slot = mine;
    slot->length = 0;
    atomic_store(&slot->taken, false);
}

/* NULL for more threads at a time than there are slots. */
static struct slot *own_slot(void) {
    for (int i = 0; i < THREADS && own == NULL; i++) {
        if (!atomic_exchange(&slots[i].taken, true)) {
            own = &slots[i];
            (void)pthread_setspecific(at_thread_end, own);
        }
    }
    return own;
}

void cf_report_call(const struct cf_state *state, int collective, int64_t bytes) {
    struct slot *slot = report.on ? own_slot() : NULL;
    if (slot == NULL) {
        return;
    }
    (void)atomic_fetch_add(&slot->version, 1);
    slot->begin = cf_now();
    slot->length = snprintf(slot->text, sizeof slot->text, "%s of %lld bytes, layout %s",
                            cf_collectives[collective].function, (long long)bytes,
                            state->layout_name == NULL ? "unknown" : state->layout_name);
    (void)atomic_fetch_add(&slot->version, 1);
}

void cf_report_choice(const struct cf_choice *choice) {
    char name[256] = "native";
    if (!report.on || own == NULL || own->length == 0) {
        return;
    }
    if (choice != NULL) {
        cf_choice_format(choice, name, sizeof name);
    }
    (void)atomic_fetch_add(&own->version, 1);
    char *by = strstr(own->text, ", by ");
    const size_t at = by == NULL ? strlen(own->text) : (size_t)(by - own->text);
    const int more = snprintf(own->text + at, sizeof own->text - at, ", by %s", name);
    own->length = (int)at + more;
    (void)atomic_fetch_add(&own->version, 1);
}

void cf_report_end(void) {
    if (report.on && own != NULL) {
        (void)atomic_fetch_add(&own->version, 1);
        own->length = 0;
        (void)atomic_fetch_add(&own->version, 1);
    }
}

/* ---- printing, also in a signal handler ------------------------------------------------------ */

static size_t append(char line[LINE], size_t at, const char *text) {
    while (*text != '\0' && at < LINE - 1) {
        line[at++] = *text++;
    }
    return at;
}

static size_t append_number(char line[LINE], size_t at, long number) {
    char digits[24];
    size_t n = sizeof digits - 1;
    digits[n] = '\0';
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return append(line, at, digits + n);
}

static const char off[] = "the library is not active";

static void print(const char *text, double seconds) {
    char line[LINE];
    size_t at = append(line, 0, "collforge: rank ");
    at = append_number(line, at, report.rank);
    at = append(line, at, text[0] == '\0' ? ": in no collective" : text == off ? ": " : ": in ");
    at = append(line, at, text);
    if (text[0] != '\0' && text != off) {
        at = append(line, at, ", for ");
        at = append_number(line, at, (long)seconds);
        at = append(line, at, " s");
    }
    line[at++] = '\n';
    (void)!write(STDERR_FILENO, line, at);
}

/* Prints calls that have lasted this long; once each, if `once`. Returns their number. */
static int print_calls(double least, bool once) {
    int found = 0;
    for (int i = 0; i < THREADS; i++) {
        struct slot *slot = &slots[i];
        char text[sizeof slot->text];
        const unsigned version = atomic_load(&slot->version);
        const double seconds = cf_now() - slot->begin;
        if (slot->length == 0 || seconds < least || (once && slot->reported == version)) {
            continue;
        }
        memcpy(text, slot->text, sizeof text);
        text[sizeof text - 1] = '\0';
        if (version % 2 == 0 && atomic_load(&slot->version) == version) {
            slot->reported = once ? version : slot->reported;
            print(text, seconds);
            found++;
        }
    }
    return found;
}

static void tell(int signal) {
    const int kept = errno;
    (void)signal;
    if (print_calls(0, false) == 0) {
        print(report.on ? "" : off, 0);
    }
    errno = kept;
}

static void *watch(void *unused) {
    struct timespec next = {0};
    (void)pthread_mutex_lock(&report.mutex);
    while (!report.ends) {
        (void)clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec++;
        (void)pthread_cond_timedwait(&report.end, &report.mutex, &next);
        (void)print_calls(report.seconds, true);
    }
    (void)pthread_mutex_unlock(&report.mutex);
    return unused;
}

static void catch_signal(int signal) {
    struct sigaction before = {.sa_handler = SIG_DFL};
    struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
    if (signal == 0 || sigaction(signal, NULL, &before) != 0) {
        return;
    }
    if (before.sa_handler == SIG_DFL) {
        (void)sigaction(signal, &action, NULL);
    } else if (before.sa_handler != tell && report.rank == 0) {
        cf_warn("COLLFORGE_REPORT: the program or MPI has a handler of %s already",
                signal == SIGUSR1 ? "USR1; take USR2" : "USR2; take USR1");
    }
}

void cf_report_catch(void) {
    const char *text = cf_variable(CF_VARIABLE_REPORT);
    int seconds = 0;
    int signal = 0;
    if (text != NULL && cf_report_parse(text, &seconds, &signal)) {
        (void)PMPI_Comm_rank(MPI_COMM_WORLD, &report.rank);
        catch_signal(signal);
    }
}

static void make_key(void) {
    (void)pthread_key_create(&at_thread_end, give_back);
}

void cf_report_start(int seconds, int signal, int rank) {
    sigset_t all;
    sigset_t before;
    if (seconds == 0 && signal == 0) {
        return;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_key);
    report.on = true;
    report.seconds = seconds;
    report.signal = signal;
    report.rank = rank;
    report.ends = false;
    catch_signal(signal);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    report.watches = seconds > 0 && pthread_create(&report.thread, NULL, watch, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cf_report_stop(void) {
    if (report.watches) {
        (void)pthread_mutex_lock(&report.mutex);
        report.ends = true;
        (void)pthread_cond_signal(&report.end);
        (void)pthread_mutex_unlock(&report.mutex);
        (void)pthread_join(report.thread, NULL);
        report.watches = false;
    }
    report.on = false;
}
