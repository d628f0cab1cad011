#include "comm/observe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/now.h"
#include "base/runtime.h"
#include "comm/profile.h"
#include "comm/report.h"
#include "comm/usage.h"
#include "data/sizes.h"
#include "winners/choice.h"

/* Calls that one choice served. */
struct service {
    const struct cf_choice *choice;
    int64_t calls;
    struct service *next;
};

/* Calls of one collective and size bucket on one communicator. */
struct cf_tally {
    int collective;
    int bucket; /* -1: zero bytes */
    bool blocking;
    int64_t calls;
    double bytes;
    double seconds;
    struct service *services; /* the last one first */
    struct cf_tally *next;
};

/* Whether COLLFORGE_PROFILE is set. */
static bool profiling = false;
static bool has_winners = false;
/* When MPI_Init returned. */
static double job_begin = 0;

/* The hashes of the decisions already logged. */
static struct cf_handle_table logged = CF_HANDLE_TABLE_INITIALIZER;

void cf_observe_setup(bool profile, bool tuned) {
    profiling = profile;
    has_winners = tuned;
    job_begin = cf_now();
}

static int bucket_of(int64_t bytes) {
    return bytes == 0 ? -1 : cf_bucket((uint64_t)bytes);
}

/* ---- tallies --------------------------------------------------------------------------------- */

static bool is_of(const struct cf_tally *tally, int collective, int bucket, bool blocking) {
    return tally->collective == collective && tally->bucket == bucket &&
           tally->blocking == blocking;
}

/* The tally of such calls, which moves to the front of the list. NULL when out of memory. */
static struct cf_tally *tally_of(struct cf_state *state, int collective, int bucket,
                                 bool blocking) {
    struct cf_tally **link = &state->tallies;
    while (*link != NULL && !is_of(*link, collective, bucket, blocking)) {
        link = &(*link)->next;
    }
    struct cf_tally *tally = *link;
    if (tally != NULL) {
        *link = tally->next;
    } else {
        tally = calloc(1, sizeof *tally);
        if (tally == NULL) {
            return NULL;
        }
        tally->collective = collective;
        tally->bucket = bucket;
        tally->blocking = blocking;
    }
    tally->next = state->tallies;
    state->tallies = tally;
    return tally;
}

/* NULL when out of memory. */
static struct cf_tally *count(struct cf_state *state, int collective, int64_t bytes,
                              bool blocking) {
    struct cf_tally *tally = tally_of(state, collective, bucket_of(bytes), blocking);
    if (tally == NULL) {
        return NULL;
    }
    tally->calls++;
    if (cf_collectives[collective].sized != CF_SIZED_EXCHANGED) {
        tally->bytes += (double)bytes;
    }
    return tally;
}

static void begin_call(struct cf_state *state, int collective, int64_t bytes,
                       struct cf_call *call) {
    call->tally = count(state, collective, bytes, true);
    if (call->tally == NULL) {
        return;
    }
    call->comm = state->comm.handle;
    call->state = state;
    call->begin = cf_now();
}

bool cf_observe_counts(void) {
    return profiling;
}

void cf_observe_nonblocking(struct cf_state *state, int collective, int64_t bytes) {
    (void)count(state, collective, bytes, false);
}

void cf_observe_sizes(const struct cf_call *call, double own_mean) {
    if (call->tally != NULL) {
        call->tally->bytes += own_mean / call->state->comm.layout.size;
    }
}

/* Nearly always one choice serves all calls of a tally. */
static void count_service(struct cf_tally *tally, const struct cf_choice *choice) {
    struct service *service = tally->services;
    while (service != NULL && service->choice != choice) {
        service = service->next;
    }
    if (service == NULL) {
        service = calloc(1, sizeof *service);
        if (service == NULL) {
            return;
        }
        service->choice = choice;
        service->next = tally->services;
        tally->services = service;
    }
    service->calls++;
}

void cf_observe_end(const struct cf_call *call, bool served) {
    if (call->tally == NULL) {
        return;
    }
    call->tally->seconds += cf_now() - call->begin;
    if (served && cf_runtime.counts && call->choice != NULL) {
        count_service(call->tally, call->choice);
    }
}

static enum cf_origin origin_of(const struct cf_state *state) {
    if (state->comm.handle == MPI_COMM_WORLD) {
        return CF_ORIGIN_WORLD;
    }
    return state->inherited ? CF_ORIGIN_DUPLICATE : CF_ORIGIN_OTHER;
}

/* Whether the guard dropped the variant of such calls. */
static bool was_dropped(const struct cf_state *state, const struct cf_tally *tally) {
    for (const struct cf_trial *trial = state->trials[0]; trial != NULL; trial = trial->next) {
        if (trial->verdict == CF_TRIAL_DROPPED && trial->bucket == tally->bucket &&
            trial->choice->variant->collective == tally->collective) {
            return true;
        }
    }
    return false;
}

static void set_key(struct cf_profile_key *key, const struct cf_state *state, int collective,
                    int bucket, bool blocking) {
    memset(key, 0, sizeof *key);
    key->collective = collective;
    key->bucket = bucket;
    key->blocking = blocking;
    key->origin = (int)origin_of(state);
    (void)snprintf(key->layout, sizeof key->layout, "%s", state->layout_name);
}

void cf_observe_ended(const struct cf_state *state, int collective, int64_t bytes, double seconds,
                      double in_mpi) {
    struct cf_profile_key key;
    set_key(&key, state, collective, bucket_of(bytes), false);
    cf_profile_add(&key, &(struct cf_profile_sums){.seconds = seconds, .in_mpi = in_mpi});
}

static void add_to_profile(const struct cf_state *state, const struct cf_tally *tally) {
    struct cf_profile_key key;
    set_key(&key, state, tally->collective, tally->bucket, tally->blocking);
    struct cf_profile_sums sums = {.rank_calls = (double)tally->calls, .seconds = tally->seconds};
    if (state->comm.layout.rank == 0) {
        sums.communicators = 1;
        sums.dropped = tally->blocking && was_dropped(state, tally);
        sums.calls = (double)tally->calls;
    }
    if (state->comm.layout.rank == 0 ||
        cf_collectives[tally->collective].sized == CF_SIZED_EXCHANGED) {
        sums.bytes = tally->bytes;
    }
    cf_profile_add(&key, &sums);
}

/* Takes the calls of a tuned collective, and what served them. */
static void add_to_usage(struct cf_tally *tally) {
    cf_usage_called(tally->calls, tally->seconds);
    while (tally->services != NULL) {
        struct service *service = tally->services;
        cf_usage_served(service->choice, service->calls);
        tally->services = service->next;
        free(service);
    }
}

void cf_observe_leave(struct cf_state *state) {
    while (state->tallies != NULL) {
        struct cf_tally *tally = state->tallies;
        if (profiling) {
            add_to_profile(state, tally);
        }
        if (cf_runtime.counts && tally->blocking && cf_state_tunes(state, tally->collective)) {
            add_to_usage(tally);
        }
        state->tallies = tally->next;
        free(tally);
    }
}

/* Adds the row of the job. */
static void add_job(const struct cf_state *world) {
    struct cf_profile_key key;
    memset(&key, 0, sizeof key);
    key.collective = key.bucket = -1;
    key.blocking = 1;
    key.origin = has_winners ? CF_ORIGIN_TUNED : CF_ORIGIN_WORLD;
    if (world->layout_name != NULL) { /* the program left it to the MPI library */
        (void)snprintf(key.layout, sizeof key.layout, "%s", world->layout_name);
    }
    const struct cf_profile_sums sums = {.communicators = world->comm.layout.rank == 0,
                                         .calls = world->comm.layout.rank == 0,
                                         .rank_calls = 1,
                                         .seconds = cf_now() - job_begin};
    cf_profile_add(&key, &sums);
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Logs a line unless it was logged before. */
static void log_once(const char *line) {
    const uint64_t hash = cf_hash_text(CF_HASH_BEGIN, line);
    uintptr_t unused;
    if (!cf_handle_find(&logged, (uintptr_t)hash, &unused) &&
        cf_handle_insert(&logged, (uintptr_t)hash, 1)) {
        cf_log(2, "%s", line);
    }
}

static void log_decision(const struct cf_state *state, int collective, int bucket,
                         const char *decision) {
    char line[CF_LAYOUT_NAME_SIZE + 512];
    uint64_t from = 0;
    uint64_t to = 0;
    cf_profile_sizes(bucket, &from, &to);
    (void)snprintf(line, sizeof line, "%s@%s, %" PRIu64 " to %" PRIu64 " bytes: %s",
                   cf_collectives[collective].name, state->layout_name, from, to, decision);
    log_once(line);
}

static bool logs_decisions(const struct cf_state *state) {
    return state->comm.layout.rank == 0 && cf_log_level() >= 2;
}

void cf_observe_call(struct cf_state *state, int collective, int64_t bytes, struct cf_call *call) {
    cf_report_call(state, collective, bytes);
    if (profiling || cf_runtime.counts) {
        begin_call(state, collective, bytes, call);
    }
}

void cf_observe_choice(const struct cf_state *state, int collective, int64_t bytes,
                       const struct cf_choice *choice, struct cf_call *call) {
    char name[256] = "native";
    call->choice = choice;
    cf_report_choice(choice);
    if (!logs_decisions(state)) {
        return;
    }
    if (choice != NULL) {
        cf_choice_format(choice, name, sizeof name);
    }
    log_decision(state, collective, bucket_of(bytes), name);
}

void cf_observe_refusal(const struct cf_state *state, int collective, int64_t bytes,
                        const struct cf_choice *choice) {
    char name[256];
    char decision[320];
    cf_report_choice(NULL);
    if (!logs_decisions(state)) {
        return;
    }
    cf_choice_format(choice, name, sizeof name);
    (void)snprintf(decision, sizeof decision, "native, because %s does not apply", name);
    log_decision(state, collective, bucket_of(bytes), decision);
}

void cf_observe_finish(const struct cf_state *world) {
    cf_handle_clear(&logged);
    if (profiling && cf_all_agree(world != NULL)) {
        add_job(world);
        cf_profile_write();
    }
    profiling = false;
}
