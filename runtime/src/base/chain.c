#define _GNU_SOURCE /* RTLD_NEXT, dladdr1 */
#include "base/chain.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "base/cf.h"
#include "base/log.h"
#include "base/symbol.h"

void cf_chain(const char *name, void *function) {
    (void)cf_symbol(RTLD_NEXT, name, function);
}

int (*cf_mpi_comm_free)(MPI_Comm *comm) = NULL;
int (*cf_mpi_comm_disconnect)(MPI_Comm *comm) = NULL;

/* In a program that is linked with all of MPI there is no next definition, and the only one is
 * MPI's. */
__attribute__((constructor)) static void chain(void) {
    cf_mpi_comm_free = PMPI_Comm_free;
    cf_mpi_comm_disconnect = PMPI_Comm_disconnect;
    cf_chain("PMPI_Comm_free", &cf_mpi_comm_free);
    cf_chain("PMPI_Comm_disconnect", &cf_mpi_comm_disconnect);
}

/*
 * The file whose definition of a name the program uses, if it is not this library; else NULL. A
 * program that takes a function's address may have an entry of that name that is no definition.
 */
static const char *file_before(const char *name) {
    Dl_info own;
    Dl_info first;
    const ElfW(Sym) *symbol = NULL;
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL || dladdr1(found, &first, (void **)&symbol, RTLD_DL_SYMENT) == 0 ||
        symbol == NULL || symbol->st_shndx == SHN_UNDEF || dladdr(cf_fingerprint, &own) == 0) {
        return NULL;
    }
    return first.dli_fbase == own.dli_fbase ? NULL : first.dli_fname;
}

void cf_chain_check(void) {
    for (int i = 0; i < cf_ncollectives; i++) {
        const char *name = cf_collectives[i].function;
        const char *file = cf_collectives[i].hybrid ? NULL : file_before(name);
        if (file != NULL) {
            cf_warn(
                "%s is called in %s and passes this library by: preload libcollforge.so before it",
                name, file);
            return;
        }
    }
}
