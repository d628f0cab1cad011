#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "start/launcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/library.h"
#include "base/symbol.h"

/* ---- Hydra ----------------------------------------------------------------------------------- */

/*
 * PMI-1: lines of text over a file descriptor, one answer per request. The MPI library uses the
 * same descriptor, and must find it without unread answers. What is put before the barrier of
 * MPI_Init, or of the first communicator of a session, is visible to all ranks after it.
 */
enum { LINE = 1024 };

static struct {
    int descriptor; /* -1: none */
    char space[256];
} pmi = {.descriptor = -1};

/* Finds the parent and the name of a process; false if unknown. */
static bool look_at(long process, long *parent, char name[64]) {
    char path[64];
    char text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    const size_t length = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    const char *open = memchr(text, '(', length);
    const char *close = strrchr(text, ')');
    if (open == NULL || close == NULL || sscanf(close + 1, " %*c %ld", parent) != 1) {
        return false;
    }
    (void)snprintf(name, 64, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

static bool begins_with(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

/*
 * Other launchers use other protocols over PMI_FD: an unknown request may abort the job. The
 * nearest launcher among the ancestors has set it. In a container with process numbers of its own
 * none is to be seen: then Hydra's other variables tell.
 */
static bool is_below_hydra(void) {
    enum { MOST_ANCESTORS = 10000 };
    char name[64] = "";
    long process = (long)getppid();
    for (int i = 0; i < MOST_ANCESTORS && process > 0; i++) {
        long parent = 0;
        if (!look_at(process, &parent, name)) {
            break;
        }
        const bool hydra =
            begins_with(name, "hydra_pmi_prox") || begins_with(name, "hydra_bstrap_p");
        if (hydra || begins_with(name, "slurmstepd")) {
            return hydra;
        }
        process = parent;
    }
    return getenv("MPI_LOCALNRANKS") != NULL && getenv("MPI_LOCALRANKID") != NULL;
}

static bool may_go_on(void) {
    struct pollfd ready = {.fd = pmi.descriptor, .events = POLLIN};
    if (errno == EAGAIN) {
        (void)poll(&ready, 1, -1);
    }
    return errno == EAGAIN || errno == EINTR;
}

/*
 * Sends a request and reads its answer without the newline. Reads byte by byte, because what
 * follows belongs to the MPI library. Calls interrupted by signals are retried. There is no
 * timeout, as in the library: an unread answer would be taken for that of its next request.
 */
static bool pmi_ask(const char *request, char answer[LINE]) {
    const size_t length = strlen(request);
    for (size_t sent = 0; sent < length;) {
        const ssize_t n = send(pmi.descriptor, request + sent, length - sent, MSG_NOSIGNAL);
        if (n < 0 && !may_go_on()) {
            return false;
        }
        sent += n < 0 ? 0 : (size_t)n;
    }
    for (size_t used = 0; used < LINE;) {
        const ssize_t n = read(pmi.descriptor, answer + used, 1);
        if (n == 0 || (n < 0 && !may_go_on())) {
            return false;
        }
        used += n == 1;
        if (n == 1 && answer[used - 1] == '\n') {
            answer[used - 1] = '\0';
            return true;
        }
    }
    return false;
}

/* Copies the word after "name=" in an answer. */
static bool word_of(const char *answer, const char *name, char *word, size_t size) {
    const char *found = strstr(answer, name);
    if (found == NULL) {
        return false;
    }
    found += strlen(name);
    const size_t length = strcspn(found, " ");
    (void)snprintf(word, size, "%.*s", (int)length, found);
    return length > 0 && length < size;
}

static bool is_good(const char *answer) {
    return strstr(answer, " rc=0") != NULL;
}

static bool pmi_is_there(void) {
    return cf_library.speaks_pmi && getenv("PMI_FD") != NULL && getenv("PMI_RANK") != NULL &&
           is_below_hydra();
}

static bool pmi_post(const char *notice) {
    char answer[LINE] = "";
    char request[LINE] = "";
    pmi.descriptor = (int)strtol(getenv("PMI_FD"), NULL, 10);
    if (!pmi_ask("cmd=init pmi_version=1 pmi_subversion=1\n", answer) || !is_good(answer) ||
        !pmi_ask("cmd=get_my_kvsname\n", answer) ||
        !word_of(answer, "kvsname=", pmi.space, sizeof pmi.space)) {
        return false;
    }
    (void)snprintf(request, sizeof request, "cmd=put kvsname=%s key=collforge-%s value=%s\n",
                   pmi.space, getenv("PMI_RANK"), notice);
    return pmi_ask(request, answer) && is_good(answer);
}

static bool pmi_read(int rank, char notice[CF_NOTICE_SIZE]) {
    char answer[LINE] = "";
    char request[LINE] = "";
    (void)snprintf(request, sizeof request, "cmd=get kvsname=%s key=collforge-%d\n", pmi.space,
                   rank);
    return pmi_ask(request, answer) && is_good(answer) &&
           word_of(answer, "value=", notice, CF_NOTICE_SIZE);
}

/* ---- PMIx ------------------------------------------------------------------------------------ */

/* From the PMIx standard; unchanged since version 2. */
enum { PMIX_GLOBAL_SCOPE = 3, PMIX_A_STRING = 3, PMIX_AN_INT = 6, PMIX_GOOD = 0 };

struct pmix_process {
    char nspace[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        char *string;
        int integer;
        char most[24];
    } data;
};

struct pmix_info {
    char key[512];
    uint32_t flags;
    struct pmix_value value;
};

static const char pmix_key[] = "collforge";

static struct {
    bool is_open;
    struct pmix_process self;
    int (*init)(struct pmix_process *, struct pmix_info *, size_t);
    int (*put)(uint8_t, const char *, struct pmix_value *);
    int (*get)(const struct pmix_process *, const char *, const struct pmix_info *, size_t,
               struct pmix_value **);
    int (*finalize)(const struct pmix_info *, size_t);
} pmix;

static bool find_pmix(void) {
    void *library = cf_library.commits             ? RTLD_DEFAULT
                    : cf_library.open_pmix == NULL ? NULL
                                                   : cf_library.open_pmix();
    return (library != NULL || cf_library.commits) && cf_symbol(library, "PMIx_Init", &pmix.init) &&
           cf_symbol(library, "PMIx_Put", &pmix.put) && cf_symbol(library, "PMIx_Get", &pmix.get) &&
           cf_symbol(library, "PMIx_Finalize", &pmix.finalize);
}

static bool pmix_is_there(void) {
    return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL && find_pmix();
}

/* MPI_Init distributes it. */
static bool pmix_put(const char *notice) {
    char text[CF_NOTICE_SIZE];
    struct pmix_value value = {.type = PMIX_A_STRING, .data = {.string = text}};
    (void)snprintf(text, sizeof text, "%s", notice);
    return pmix.put(PMIX_GLOBAL_SCOPE, pmix_key, &value) == PMIX_GOOD;
}

/* PMIx counts its users. */
static bool pmix_open(void) {
    pmix.is_open = pmix.init(&pmix.self, NULL, 0) == PMIX_GOOD;
    return pmix.is_open;
}

/* With a timeout, because the server may wait for a notice that is never posted. */
static bool pmix_read(int rank, int seconds, char notice[CF_NOTICE_SIZE]) {
    struct pmix_process other = pmix.self;
    struct pmix_info limit = {
        .key = "pmix.timeout",
        .value = {.type = PMIX_AN_INT, .data = {.integer = seconds}},
    };
    struct pmix_value *value = NULL;
    other.rank = (uint32_t)rank;
    if (pmix.get(&other, pmix_key, &limit, 1, &value) != PMIX_GOOD || value == NULL) {
        return false;
    }
    const bool found = value->type == PMIX_A_STRING && value->data.string != NULL;
    if (found) {
        (void)snprintf(notice, CF_NOTICE_SIZE, "%s", value->data.string);
        free(value->data.string);
    }
    free(value);
    return found;
}

/* ---- either store ---------------------------------------------------------------------------- */

static enum cf_posted posted = CF_NOWHERE;

/* For PMIx_Commit inside MPI_Init. */
static char pending[CF_NOTICE_SIZE];

static void put_pending(void) {
    cf_before_commit = NULL;
    if (pmix_is_there()) {
        posted = pmix_put(pending) ? CF_POSTED : CF_NOT_POSTED;
    }
}

void cf_launcher_post(const char *notice) {
    const bool hydra = pmi_is_there();
    if (cf_library.commits) {
        (void)snprintf(pending, sizeof pending, "%s", notice);
        cf_before_commit = put_pending;
    } else if (hydra || pmix_is_there()) {
        const bool good = hydra ? pmi_post(notice) : pmix_open() && pmix_put(notice);
        posted = good ? CF_POSTED : CF_NOT_POSTED;
    }
}

enum cf_posted cf_launcher_posted(void) {
    /* MPI may have committed before this library was asked to post. */
    const bool late = posted == CF_NOWHERE && cf_before_commit != NULL && pmix_is_there();
    if (late || (cf_library.commits && posted == CF_POSTED && !pmix.is_open && !pmix_open())) {
        posted = CF_NOT_POSTED;
    }
    return posted;
}

bool cf_launcher_read(int rank, int seconds, char notice[CF_NOTICE_SIZE]) {
    return pmi.descriptor >= 0 ? pmi_read(rank, notice)
                               : pmix.is_open && pmix_read(rank, seconds, notice);
}

/* MPI_Finalize still works: PMIx counts its users. */
void cf_launcher_close(void) {
    cf_before_commit = NULL;
    if (pmix.is_open) {
        (void)pmix.finalize(NULL, 0);
    }
    pmix.is_open = false;
    pmi.descriptor = -1;
}
