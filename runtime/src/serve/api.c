/* The functions of collforge.h. */

#include <stdio.h>
#include <string.h>

#include "base/runtime.h"
#include "comm/comm.h"
#include "serve/dispatch.h"
#include "serve/guard.h"
#include "winners/choice.h"

const char *collforge_version(void) {
    return COLLFORGE_VERSION;
}

/* Whether native serves calls of a nonblocking form, whatever was chosen. */
static bool is_native_start(int form, const struct cf_choice *choice) {
    const int collective = cf_collectives[form].collective;
    return collective != form && (!cf_starts(collective) || choice->variant->only_blocking);
}

int collforge_choice(MPI_Comm comm, const char *collective, size_t bytes, char *name, size_t size) {
    static const struct cf_choice native = {0};
    const struct cf_choice *choice = NULL;
    struct cf_state *state = NULL;
    const int index = cf_collective_find(collective, strlen(collective));
    if (index < 0) {
        return MPI_ERR_ARG;
    }
    const bool unsized = cf_collectives[index].sized == CF_SIZED_NONE;
    const int64_t known = unsized ? CF_UNSIZED_BYTES : (int64_t)bytes;
    if (cf_runtime.mode >= CF_MODE_ON && bytes <= CF_MOST_BYTES) {
        CF_TRY(cf_state_of(comm, &state));
        choice = cf_choose_bytes(state, index, known);
    }
    if (choice != NULL &&
        (!cf_applies_by_layout(choice, &state->comm.layout, known) ||
         cf_guard_dropped(state, choice, known) || is_native_start(index, choice))) {
        choice = NULL;
    }
    cf_choice_format(choice == NULL ? &native : choice, name, size);
    return MPI_SUCCESS;
}
