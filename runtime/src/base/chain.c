#define _GNU_SOURCE /* RTLD_NEXT, dladdr1 */
#include "base/chain.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "base/cf.h"
#include "base/symbol.h"

void cf_chain(const char *name, void *function) {
    (void)cf_symbol(RTLD_NEXT, name, function);
}

/* In a program that is linked with all of MPI there is no next definition, and the only one is
 * MPI's. */
#define OWN(name, function)                                                                        \
    int name(MPI_Comm *comm) {                                                                     \
        static int (*_Atomic own)(MPI_Comm *) = NULL;                                              \
        int (*found)(MPI_Comm *) = own;                                                            \
        if (found == NULL) {                                                                       \
            found = function;                                                                      \
            cf_chain(#function, &found);                                                           \
            own = found;                                                                           \
        }                                                                                          \
        return found(comm);                                                                        \
    }

OWN(cf_mpi_comm_free, PMPI_Comm_free)
OWN(cf_mpi_comm_disconnect, PMPI_Comm_disconnect)

const char *cf_file_unlike(const char *name, const char *other) {
    Dl_info one;
    Dl_info two;
    void *found = dlsym(RTLD_DEFAULT, name);
    void *beside = dlsym(RTLD_DEFAULT, other);
    return found != NULL && beside != NULL && dladdr(found, &one) != 0 &&
                   dladdr(beside, &two) != 0 && one.dli_fbase != two.dli_fbase
               ? one.dli_fname
               : NULL;
}

/* A program that takes a function's address may have an entry of that name that is no definition.
 */
const char *cf_file_before(const char *name) {
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
