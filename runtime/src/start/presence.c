/*
 * The first protocol between ranks. It never changes between versions, so that any two versions can
 * find out that they differ:
 *
 *   - the notice of a rank (launcher.h) is "1:VERSION:BUILD", BUILD as in base/identity.h;
 *   - the ranks of MPI_COMM_WORLD form a binary tree in which (r - 1) / 2 is the parent of rank r;
 *     an edge is used only if the notices of both ranks begin with "1:";
 *   - the minimum enum verdict is reduced up the tree and broadcast down, by int messages with
 *     tag 25455.
 *
 * A rank without the library receives no message. It splits the tree, and its neighbours notice.
 */
#include "start/start.h"

#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cf.h"
#include "base/chain.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/identity.h"
#include "base/library.h"
#include "base/log.h"
#include "start/launcher.h"

enum { TAG = 25455 };

enum verdict { SOME_LACK_IT, BUILDS_DIFFER, ALL_ALIKE, NOBODY_KNOWS /* never sent */ };

static const char *const reasons[] = {
    [SOME_LACK_IT] = "some ranks of the job run without libcollforge.so; native collectives",
    [BUILDS_DIFFER] = "the ranks run different builds of libcollforge.so; native collectives",
    [NOBODY_KNOWS] =
        "this launcher does not tell whether all ranks have libcollforge.so; native "
        "collectives (if all have it: COLLFORGE_START_TIMEOUT=60 on all of them)",
};

static const char form[] = "1:";

static void write_notice(char notice[CF_NOTICE_SIZE]) {
    char build[CF_IDENTITY_SIZE];
    cf_identity(build);
    (void)snprintf(notice, CF_NOTICE_SIZE, "%s%s:%s", form, COLLFORGE_VERSION, build);
}

static void announce(void) {
    char notice[CF_NOTICE_SIZE];
    write_notice(notice);
    cf_launcher_post(notice);
}

/* A second thread waits: MPI must not talk to the launcher at the same time. */
void cf_presence_announce(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, announce);
}

/* In seconds. */
static double start_timeout(void) {
    enum { USUAL = 300, LONGEST = 100000 };
    const char *text = cf_variable(CF_VARIABLE_START_TIMEOUT);
    const double seconds = text == NULL ? 0 : strtod(text, NULL);
    return seconds >= LONGEST ? LONGEST : seconds > 0 ? seconds : USUAL;
}

/* MPI_Init has distributed the notices by now. The timeout is short, because a neighbour may have
 * to wait for several ranks in turn. */
static enum verdict look_at(int rank) {
    const int seconds = 1 + (int)(start_timeout() / 200);
    char own[CF_NOTICE_SIZE];
    char other[CF_NOTICE_SIZE] = "";
    write_notice(own);
    if (!cf_launcher_read(rank, seconds, other) || strncmp(other, form, sizeof form - 1) != 0) {
        return SOME_LACK_IT;
    }
    return strcmp(own, other) == 0 ? ALL_ALIKE : BUILDS_DIFFER;
}

/* Aborts the job if a request does not complete in time: the other ranks cannot know what a rank
 * that gave up would do. */
static void finish_in_time(MPI_Request *request) {
    const struct timespec pause = {.tv_nsec = 100000};
    const double end = PMPI_Wtime() + start_timeout();
    int done = 0;
    while (PMPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
           PMPI_Wtime() < end) {
        (void)nanosleep(&pause, NULL);
    }
    if (done) {
        return;
    }
    cf_warn(
        "some ranks have not come to MPI_Init with this library in COLLFORGE_START_TIMEOUT; "
        "the job ends here: preload it on all nodes, or on none");
    (void)PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_OTHER);
}

/* ---- agreement by notices -------------------------------------------------------------------- */

static int least(int one, int other) {
    return one < other ? one : other;
}

static bool give(int value, int rank) {
    return PMPI_Send(&value, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
}

static int take(int rank) {
    int value = SOME_LACK_IT;
    MPI_Request request = MPI_REQUEST_NULL;
    if (PMPI_Irecv(&value, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, &request) == MPI_SUCCESS) {
        finish_in_time(&request);
    }
    return value;
}

static enum verdict agree_by_notices(int rank, int size) {
    const int parent = (rank - 1) / 2;
    const enum verdict above = rank == 0 ? ALL_ALIKE : look_at(parent);
    enum verdict below[2];
    int found = (int)above;

    for (int i = 0; i < 2; i++) {
        const int child = 2 * rank + 1 + i;
        below[i] = child < size ? look_at(child) : SOME_LACK_IT;
        if (child < size) {
            found = least(found, (int)below[i]);
        }
        if (below[i] != SOME_LACK_IT) {
            found = least(found, take(child));
        }
    }
    if (rank > 0 && above != SOME_LACK_IT) {
        (void)give(found, parent);
        found = take(parent);
    }
    for (int i = 0; i < 2; i++) {
        if (below[i] != SOME_LACK_IT) {
            (void)give(found, 2 * rank + 1 + i);
        }
    }
    return (enum verdict)found;
}

/* Whether this rank prints the warning. It is the first rank with the library among 0, 1, 3, 7 and
 * so on, else the last rank. */
static bool speaks(int rank, int size) {
    int first = 0;
    if (rank < size - 1 && (rank & (rank + 1)) != 0) {
        return false;
    }
    while (first < rank && look_at(first) == SOME_LACK_IT) {
        first = least(2 * first + 1, size - 1);
    }
    return first == rank;
}

/* ---- agreement by collectives ---------------------------------------------------------------- */

static enum verdict agree_by_collectives(void) {
    char notice[CF_NOTICE_SIZE];
    write_notice(notice);
    const int64_t hash = (int64_t)(cf_hash_text(CF_HASH_BEGIN, notice) >> 1);
    const int64_t mine[2] = {hash, -hash};
    int64_t all[2] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    if (PMPI_Ibarrier(MPI_COMM_WORLD, &request) == MPI_SUCCESS) {
        finish_in_time(&request);
    }
    if (PMPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS) {
        return BUILDS_DIFFER;
    }
    return all[0] == -all[1] ? ALL_ALIKE : BUILDS_DIFFER;
}

bool cf_presence_agree(void) {
    int rank = 0;
    int size = 1;
    enum verdict verdict = ALL_ALIKE;
    const enum cf_posted posted = cf_launcher_posted();
    if (PMPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        PMPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS) {
        return false;
    }
    if (size > 1) {
        verdict = posted == CF_POSTED       ? agree_by_notices(rank, size)
                  : posted == CF_NOT_POSTED ? SOME_LACK_IT /* as the other ranks see it */
                  : cf_variable(CF_VARIABLE_START_TIMEOUT) == NULL ? NOBODY_KNOWS
                                                                   : agree_by_collectives();
    }
    if (verdict != ALL_ALIKE && (posted == CF_POSTED ? speaks(rank, size) : rank == 0)) {
        cf_warn("%s", reasons[verdict]);
    }
    cf_launcher_close();
    return verdict == ALL_ALIKE;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Wrapped under both names: bindings may call either. Open MPI 5 has sessions, but says MPI 3.1. */
#ifdef MPI_SESSION_NULL
#define WRAP(name)                                                                                 \
    COLLFORGE_PUBLIC int name(MPI_Info info, MPI_Errhandler handler, MPI_Session *session) {       \
        static int (*next_one)(MPI_Info, MPI_Errhandler, MPI_Session *);                           \
        cf_chain(#name, &next_one);                                                                \
        if (cf_library.exchanges_in_sessions && cf_library_is_ours())                              \
            cf_presence_announce();                                                                \
        return next_one(info, handler, session);                                                   \
    }

WRAP(MPI_Session_init)
WRAP(PMPI_Session_init)
#endif
