#include "comm/under_way.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/coroutine.h"
#include "base/library.h"
#include "base/log.h"
#include "base/now.h"
#include "comm/observe.h"
#include "comm/progress_thread.h"
#include "place/connect.h"

enum { UNUSED_TAG = 32767 }; /* nothing is received */

/*
 * Guards the list and the coroutines. Who makes progress inside the MPI library only tries to lock
 * it: it may hold the library's own lock, and a coroutine's calls make progress again.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct cf_under_way *first, *last;
static atomic_int count;
static atomic_bool hooked; /* the MPI library calls advance_in_hook; changes under the lock */
static bool has_hook, has_thread;

/*
 * ---- time, for the profile --------------------------------------------------------------------
 *
 * A program that waits in MPI makes progress again and again. What passes between two polls is time
 * in MPI, too, if the thread has hardly computed meanwhile: it may have had to share its core.
 */

static const double LEAST_COMPUTED = 1e-4; /* seconds, between two polls */
static const double MOST_SHARED = 0.1;     /* seconds without a core */
static double in_mpi, last_poll;
static _Thread_local double last_computed;
static _Thread_local bool in_thread; /* the progress thread, whose polls tell nothing */

/* inside: since the last call, the program was in here. */
static void count_time(bool inside) {
    if (!has_hook || in_thread || !cf_observe_counts()) {
        return;
    }
    const double now = cf_now();
    const double computed = cf_clock(CLOCK_THREAD_CPUTIME_ID);
    const bool waited = computed - last_computed < LEAST_COMPUTED && now - last_poll < MOST_SHARED;
    in_mpi += inside || waited ? now - last_poll : 0;
    last_poll = now;
    last_computed = computed;
}

static void tell_time(const struct cf_under_way *call) {
    count_time(true);
    if (has_hook && call->collective >= 0 && cf_observe_counts()) {
        cf_observe_ended(call->state, call->collective, call->bytes, cf_now() - call->begin,
                         in_mpi - call->in_mpi);
    }
}

/* ---- the requests ---------------------------------------------------------------------------- */

static int query(void *call, MPI_Status *status) {
    const struct cf_under_way *of = call;
    (void)PMPI_Status_set_elements(status, MPI_BYTE, 0);
    (void)PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return of->err;
}

static int free_call(void *call) {
    struct cf_under_way *of = call;
    of->free(of);
    return MPI_SUCCESS;
}

/* MPI does not allow it for collectives: nothing is cancelled. */
static int cancel(void *call, int complete) {
    (void)call;
    (void)complete;
    return MPI_SUCCESS;
}

static void complete_generalized(struct cf_under_way *call) {
    (void)PMPI_Grequest_complete(call->request);
}

/* ---- progress -------------------------------------------------------------------------------- */

static void body(void *what) {
    struct cf_under_way *call = what;
    call->err = call->run(call);
}

/* Whether no earlier call of its communicator is under way. */
static bool may_run(const struct cf_under_way *call) {
    for (const struct cf_under_way *other = first; other != call; other = other->next) {
        if (other->state == call->state) {
            return false;
        }
    }
    return true;
}

/* True when it has ended. Without memory for a coroutine it is tried again when others have ended.
 */
static bool go_on(struct cf_under_way *call) {
    if (call->coroutine == NULL && may_run(call)) {
        call->coroutine = cf_coroutine_make(body, call);
        if (call->coroutine == NULL && cf_coroutines == 0) {
            (void)cf_raise(call->state->comm.handle, MPI_ERR_NO_MEM);
        }
    }
    return call->coroutine != NULL && cf_coroutine_resume(call->coroutine);
}

/* Nothing is under way only when its request is complete: who finds it so frees what the call uses,
 * or hands the request to an MPI library that expects it complete. */
static void end(struct cf_under_way *call, struct cf_under_way *before) {
    struct cf_state *state = call->state;
    *(before == NULL ? &first : &before->next) = call->next;
    last = last == call ? before : last;
    tell_time(call);
    call->complete(call); /* which may free it */
    state->under_way--;
    (void)atomic_fetch_sub(&count, 1);
}

/* The number of calls that have ended; -1 if none are left. in_hook: then it is not called again
 * before the next start. */
static int advance_here(bool in_hook) {
    int ended = 0;
    if (atomic_load(&count) == 0 && !(in_hook && hooked)) {
        return -1;
    }
    if (pthread_mutex_trylock(&mutex) != 0) {
        return 0;
    }
    struct cf_under_way *before = NULL;
    count_time(false);
    for (struct cf_under_way *call = first; call != NULL;) {
        struct cf_under_way *const next = call->next;
        if (go_on(call)) {
            end(call, before);
            ended++;
        } else {
            before = call;
        }
        call = next;
    }
    count_time(true);
    const bool idle = first == NULL;
    hooked = hooked && !(in_hook && idle);
    (void)pthread_mutex_unlock(&mutex);
    return idle ? -1 : ended;
}

static int advance(void) {
    return advance_here(false);
}

static int advance_in_hook(void) {
    return advance_here(true);
}

/* A thread is in a set-up: what MPI calls meanwhile may make communicators, too. */
static _Thread_local bool in_set_up;

static bool is_of_interest(const struct cf_state *state) {
    return state->comm.layout.size > 1 && state->rules != NULL;
}

/*
 * What the variants of its rules need, and a duplicate where native may serve calls in a coroutine:
 * their sizes are exchanged there, or a variant is on trial. On all ranks alike; what is refused is
 * asked for once.
 */
static int prepare_variants(struct cf_state *state) {
    const struct cf_choice *before = NULL;
    bool order = false;
    bool ready = false;
    for (int i = 0; i < cf_ncollectives * CF_BUCKETS; i++) {
        const struct cf_choice *choice = state->rules->by_size[i];
        if (choice != NULL && choice != before &&
            !cf_collectives[choice->variant->collective].hybrid) {
            order |= cf_collectives[choice->variant->collective].sized == CF_SIZED_EXCHANGED ||
                     (choice->evidence == CF_EXPECTED && cf_runtime.guard != CF_GUARD_OFF);
            if (!choice->variant->only_blocking) {
                CF_TRY(cf_prepare(choice->variant, &state->comm, choice->parameter, &ready));
            }
        }
        before = choice;
    }
    return order ? cf_order_ready(&state->comm, &ready) : MPI_SUCCESS;
}

static int set_up(MPI_Comm comm) {
    struct cf_state *state = NULL;
    const int err = cf_state_of(comm, &state);
    if (err == MPI_ERR_COMM) { /* the runtime has stopped */
        return MPI_SUCCESS;
    }
    CF_TRY(err);
    if (is_of_interest(state)) {
        CF_TRY(cf_state_complete(state));
        CF_TRY(state->stage == CF_STAGE_COMPLETE ? prepare_variants(state) : MPI_SUCCESS);
    }
    return MPI_SUCCESS;
}

void cf_under_way_set_up(MPI_Comm comm) {
    if (cf_runtime.nonblocking && !in_set_up && comm != MPI_COMM_NULL) {
        in_set_up = true;
        const int err = set_up(comm);
        in_set_up = false;
        if (err != MPI_SUCCESS) { /* the other ranks are set up, and will start variants */
            (void)cf_raise(comm, err);
        }
    }
}

static bool is_under_way(MPI_Request request) {
    bool found = false;
    (void)pthread_mutex_lock(&mutex);
    for (const struct cf_under_way *call = first; call != NULL && !found; call = call->next) {
        found = call->request == request;
    }
    (void)pthread_mutex_unlock(&mutex);
    return found;
}

/*
 * Messages need progress here: a coroutine that waits in shared memory calls no MPI, and one may
 * ask for completion alone (has_completed). MPICH makes none for MPI_COMM_SELF.
 */
static void wait_a_little(void) {
    int found = 0;
    if (advance() == 0) {
        (void)PMPI_Iprobe(0, UNUSED_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        (void)sched_yield();
    }
}

static void finish_requests(int n, const MPI_Request *requests) {
    for (int i = 0; i < n && atomic_load(&count) > 0; i++) {
        while (is_under_way(requests[i])) {
            wait_a_little();
        }
    }
}

/* For the thread. False if nothing is under way. */
static bool poll_once(void) {
    const bool busy = atomic_load(&count) > 0;
    in_thread = true;
    if (busy) {
        wait_a_little();
    }
    return busy;
}

void cf_under_way_begin(bool wanted) {
    struct cf_state *world = NULL;
    if (!wanted) {
        return;
    }
    has_hook = cf_library.call_in_progress != NULL && cf_library.call_in_progress(NULL);
    has_thread = cf_progress_thread_begin(poll_once, !has_hook);
    cf_runtime.nonblocking = cf_all_agree(has_hook || has_thread);
    if (!cf_runtime.nonblocking && cf_state_of(MPI_COMM_WORLD, &world) == MPI_SUCCESS &&
        is_of_interest(world) && world->comm.layout.rank == 0) {
        cf_warn(
            "COLLFORGE_NONBLOCKING is ignored: this %s cannot call others when it makes progress; "
            "COLLFORGE_PROGRESS=thread can",
            cf_library.title);
    }
    cf_before_waitall = cf_runtime.nonblocking ? finish_requests : NULL;
    cf_under_way_set_up(MPI_COMM_WORLD);
}

void cf_under_way_queue(struct cf_under_way *call) {
    call->coroutine = NULL;
    call->next = NULL;
    (void)pthread_mutex_lock(&mutex);
    count_time(false);
    call->begin = last_poll;
    call->in_mpi = in_mpi;
    *(last == NULL ? &first : &last->next) = call;
    last = call;
    call->state->under_way++;
    (void)atomic_fetch_add(&count, 1);
    if (has_hook && !hooked) {
        hooked = true; /* before: advance may be called in another thread at once */
        hooked = cf_library.call_in_progress(advance_in_hook);
    }
    (void)pthread_mutex_unlock(&mutex);
    cf_progress_thread_wake();
    (void)advance();
    if (!has_hook && !has_thread) { /* after cf_under_way_end */
        cf_under_way_finish_long(call->state);
    }
}

int cf_under_way_start(struct cf_under_way *call, MPI_Request *request) {
    CF_TRY(PMPI_Grequest_start(query, free_call, cancel, call, request));
    call->complete = complete_generalized;
    call->request = *request;
    cf_under_way_queue(call);
    return MPI_SUCCESS;
}

void cf_under_way_end(void) {
    cf_under_way_finish_long(NULL);
    cf_progress_thread_end();
    has_thread = false;
}

void cf_under_way_finish_long(const struct cf_state *state) {
    while (state == NULL ? atomic_load(&count) > 0 : state->under_way > 0) {
        wait_a_little();
    }
}
