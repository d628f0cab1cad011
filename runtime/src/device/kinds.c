#include "device/kinds.h"

#include <string.h>

#include "base/chain.h"
#include "comm/under_way.h"

/* Whether a kind, maybe with restrictors after colons, is host memory. */
static bool is_of_host(const char *kind, size_t length) {
    static const char *const kinds[] = {"system", "mpi"};
    const size_t name = strcspn(kind, ":,");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (name <= length && name == strlen(kinds[i]) && strncmp(kind, kinds[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Reads the assertion of the info; false if there is none. */
static bool read_info(MPI_Info info, bool *of_host) {
    char kinds[MPI_MAX_INFO_VAL + 1] = "";
    int there = 0;
    if (info == MPI_INFO_NULL ||
        PMPI_Info_get(info, "mpi_assert_memory_alloc_kinds", MPI_MAX_INFO_VAL, kinds, &there) !=
            MPI_SUCCESS ||
        !there) {
        return false;
    }
    *of_host = true;
    for (const char *kind = kinds; *of_host && kind != NULL;) {
        const size_t length = strcspn(kind, ",");
        *of_host = is_of_host(kind, length);
        kind = kind[length] == '\0' ? NULL : kind + length + 1;
    }
    return true;
}

bool cf_kinds_are_of_host(struct cf_state *state) {
    MPI_Info info = MPI_INFO_NULL;
    if (!state->kinds_read && PMPI_Comm_get_info(state->comm.handle, &info) == MPI_SUCCESS &&
        info != MPI_INFO_NULL) {
        (void)read_info(info, &state->host_only);
        (void)PMPI_Info_free(&info);
    }
    state->kinds_read = true;
    return state->host_only;
}

/* ---- for libraries that drop unknown info keys ----------------------------------------------- */

static struct {
    int (*set_info)(MPI_Comm, MPI_Info);
    int (*dup_with_info)(MPI_Comm, MPI_Info, MPI_Comm *);
} next = {PMPI_Comm_set_info, PMPI_Comm_dup_with_info};

__attribute__((constructor)) static void chain(void) {
    cf_chain("MPI_Comm_set_info", &next.set_info);
    cf_chain("MPI_Comm_dup_with_info", &next.dup_with_info);
}

static bool asks_for_native(MPI_Info info) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int there = 0;
    return info != MPI_INFO_NULL &&
           PMPI_Info_get(info, "collforge", MPI_MAX_INFO_VAL, value, &there) == MPI_SUCCESS &&
           there && strcmp(value, "native") == 0;
}

/* Unsettles the communicator: calls may be settled by an earlier assertion. */
static void remember(MPI_Comm comm, MPI_Info info) {
    struct cf_state *state = NULL;
    bool of_host = false;
    if (asks_for_native(info)) {
        cf_state_decline(comm);
        return;
    }
    if (!read_info(info, &of_host) || cf_state_of(comm, &state) != MPI_SUCCESS ||
        state->common == NULL) {
        return;
    }
    state->kinds_read = true;
    state->host_only = of_host;
    cf_state_unsettle(state);
}

#pragma weak PMPI_Comm_set_info
#pragma weak PMPI_Comm_dup_with_info

/* MPI's own. Also found before our constructors run; later without the loader's lock, because the
 * library calls these functions itself, in collectives. */
static struct {
    int (*set_info)(MPI_Comm, MPI_Info);
    int (*dup_with_info)(MPI_Comm, MPI_Info, MPI_Comm *);
} own;

__attribute__((constructor)) static void find_own(void) {
    own.set_info = PMPI_Comm_set_info;
    own.dup_with_info = PMPI_Comm_dup_with_info;
    cf_chain("PMPI_Comm_set_info", &own.set_info);
    cf_chain("PMPI_Comm_dup_with_info", &own.dup_with_info);
}

/* Under both names, because Open MPI's Fortran routines call PMPI's. No handle is used unless the
 * runtime is on, because it may be another library's. */
static int set_info(int (*set)(MPI_Comm, MPI_Info), MPI_Comm comm, MPI_Info info) {
    const int err = set(comm, info);
    if (err == MPI_SUCCESS && cf_runtime.mode >= CF_MODE_ON) {
        remember(comm, info);
    }
    return err;
}

static int dup_with_info(int (*dup)(MPI_Comm, MPI_Info, MPI_Comm *), MPI_Comm comm, MPI_Info info,
                         MPI_Comm *out) {
    const int err = dup(comm, info, out);
    if (err == MPI_SUCCESS && cf_runtime.mode >= CF_MODE_ON) {
        remember(*out, info);
        cf_under_way_set_up(*out);
    }
    return err;
}

COLLFORGE_PUBLIC int MPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
    return set_info(next.set_info, comm, info);
}

COLLFORGE_PUBLIC int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *out) {
    return dup_with_info(next.dup_with_info, comm, info, out);
}

__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
    if (own.set_info == NULL) {
        find_own();
    }
    return set_info(own.set_info, comm, info);
}

__attribute__((weak)) COLLFORGE_PUBLIC int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info,
                                                                   MPI_Comm *out) {
    if (own.dup_with_info == NULL) {
        find_own();
    }
    return dup_with_info(own.dup_with_info, comm, info, out);
}
