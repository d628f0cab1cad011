#include "start/unreached.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cf.h"
#include "base/chain.h"
#include "base/library.h"
#include "base/log.h"
#include "base/runtime.h"

enum { NAME_SIZE = 64 };

/*
 * The file that defines a function before this library, in C or in Fortran; NULL: none. Where the
 * Fortran routines are the MPI library's, which call C's, a tool's may call PMPI's instead.
 */
static const char *file_of(const char *function) {
    char name[NAME_SIZE + 2];
    const char *file = cf_file_before(function);
    if (file != NULL) {
        return file;
    }
    (void)snprintf(name, sizeof name, "p%s_", function);
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    return cf_library.has_fortran_of_its_own ? cf_file_before(name + 1)
                                             : cf_file_unlike(name + 1, name);
}

/* The same of a large-count function, which this library need not define: then the first definition
 * is the MPI library's own. */
static const char *file_of_large(const char *function) {
    char name[NAME_SIZE + 1];
    (void)snprintf(name, sizeof name, "P%s", function);
    return cf_file_unlike(function, name) == NULL ? NULL : file_of(function);
}

/*
 * The file that hides the calls of a collective, or its starts, from this library, and the
 * function's name; NULL: none. Persistent ones are not looked at: this library defines their PMPI
 * names, too.
 */
static const char *hides(int collective, bool starts, char name[NAME_SIZE]) {
    const char *function = cf_collectives[collective].function;
    const char *file = NULL;
    for (int large = 0; large < 2 && file == NULL; large++) {
        (void)snprintf(name, NAME_SIZE, "%.4s%s%s%s", function, starts ? "I" : "", function + 4,
                       large ? "_c" : "");
        if (starts) {
            name[5] = (char)tolower((unsigned char)name[5]);
        }
        file = large ? file_of_large(name) : file_of(name);
    }
    return file;
}

/* Returns a bit for each collective that is hidden on some rank. */
static uint64_t find(int rank, bool starts, bool *warned) {
    char name[NAME_SIZE];
    uint64_t found = 0;
    int *first = malloc((size_t)cf_ncollectives * sizeof *first);
    if (!cf_all_agree(first != NULL)) {
        free(first);
        return 0;
    }
    for (int i = 0; i < cf_ncollectives; i++) {
        const struct cf_collective_info *info = &cf_collectives[i];
        const bool looks = !info->hybrid && info->collective == i;
        first[i] = looks && hides(i, starts, name) != NULL ? rank : INT_MAX;
    }
    (void)PMPI_Allreduce(MPI_IN_PLACE, first, cf_ncollectives, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    for (int i = 0; i < cf_ncollectives; i++) {
        if (first[i] == INT_MAX) {
            continue;
        }
        found |= UINT64_C(1) << i;
        if (first[i] == rank && !*warned) {
            const char *file = hides(i, starts, name);
            cf_warn(
                "%s is called in %s on rank %d and passes this library by: it is native on all "
                "ranks; preload libcollforge.so before it",
                name, file, rank);
        }
        *warned = true;
    }
    free(first);
    return found;
}

void cf_unreached_find(int rank, bool nonblocking) {
    bool warned = false;
    cf_runtime.unreached = find(rank, false, &warned);
    cf_runtime.unstarted = nonblocking ? find(rank, true, &warned) : 0;
}
