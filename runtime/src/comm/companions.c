#include "comm/companions.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/chain.h"
#include "comm/under_way.h"
#include "place/connect.h"

/* Which bits are set on all ranks. */
static int agree(MPI_Comm comm, uint32_t own, uint32_t *all) {
    return PMPI_Allreduce(&own, all, 1, MPI_UINT32_T, MPI_BAND, comm);
}

static bool make(struct cf_comm *comm, const void *made) {
    MPI_Comm *out = *(MPI_Comm *const *)made;
    return cf_comm_agree(comm->handle, cf_hidden_split(comm->handle, 0, comm->layout.rank, out));
}

/* A further one, if all ranks may. Half of the hidden communicators are left to blocking calls:
 * companions of requests that outlive their communicator are never freed. */
static int add(struct cf_state *state, int *taken) {
    struct cf_companions *own = state->companions;
    MPI_Comm *out = &own->comm[own->made];
    bool done = false;
    if (own->made == CF_MOST_COMPANIONS) {
        return MPI_SUCCESS;
    }
    CF_TRY(cf_prepare_part(&state->comm, CF_MOST_HIDDEN / 2, make, &out, &done));
    if (done) {
        cf_under_way_set_up(*out);
        *taken = own->made++;
    }
    return MPI_SUCCESS;
}

int cf_companion_take(struct cf_state *state, bool good, int *taken) {
    struct cf_companions **own = &state->companions;
    uint32_t all = 0;
    *taken = -1;
    if (*own == NULL) {
        *own = calloc(1, sizeof **own);
    }
    /* The highest bit, which is none's: whether all may go on. */
    const uint32_t may = UINT32_C(1) << CF_MOST_COMPANIONS;
    good = good && *own != NULL;
    CF_TRY(agree(state->comm.handle, good ? atomic_load(&(*own)->free) | may : 0, &all));
    if ((all & may) == 0) {
        if (*own != NULL && (*own)->made == 0) { /* a rank has none, and all free theirs together */
            free(*own);
            *own = NULL;
        }
        return MPI_SUCCESS;
    }
    all &= ~may;
    if (all == 0) {
        return add(state, taken);
    }
    *taken = __builtin_ctz(all);
    (void)atomic_fetch_and(&(*own)->free, ~(UINT32_C(1) << *taken));
    return MPI_SUCCESS;
}

void cf_companion_give(struct cf_companions *companions, int taken) {
    (void)atomic_fetch_or(&companions->free, UINT32_C(1) << taken);
}

void cf_companions_free(struct cf_state *state) {
    struct cf_companions *own = state->companions;
    uint32_t all = 0;
    if (own == NULL || agree(state->comm.handle, atomic_load(&own->free), &all) != MPI_SUCCESS) {
        return;
    }
    for (int i = 0; i < own->made; i++) {
        if (all >> i & 1) {
            (void)cf_comm_free(&own->comm[i]);
            cf_hidden_count(-1);
        }
    }
    state->companions = NULL;
    if (all == (UINT32_C(1) << own->made) - 1) { /* else a request has it */
        free(own);
    }
}
