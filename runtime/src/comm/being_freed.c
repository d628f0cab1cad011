#include "comm/being_freed.h"

#include <string.h>

static const char freed_mark[] = " (freed\001)";

static bool is_marked(const char *name) {
    const size_t mark = sizeof freed_mark - 1;
    const size_t used = strlen(name);
    return used >= mark && strcmp(name + used - mark, freed_mark) == 0;
}

bool cf_is_being_freed(MPI_Comm comm) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    return PMPI_Comm_get_name(comm, name, &length) == MPI_SUCCESS && is_marked(name);
}

bool cf_mark_being_freed(MPI_Comm comm, char *before) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    if (PMPI_Comm_get_name(comm, name, &length) != MPI_SUCCESS) {
        return false;
    }
    if (before != NULL) {
        memcpy(before, name, sizeof name);
    }
    if (is_marked(name)) {
        return true;
    }
    name[MPI_MAX_OBJECT_NAME - sizeof freed_mark] = '\0';
    memcpy(name + strlen(name), freed_mark, sizeof freed_mark);
    return PMPI_Comm_set_name(comm, name) == MPI_SUCCESS;
}
