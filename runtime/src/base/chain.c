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

CF_OWN(cf_mpi_comm_free, PMPI_Comm_free, (MPI_Comm * comm), comm)
CF_OWN(cf_mpi_comm_disconnect, PMPI_Comm_disconnect, (MPI_Comm * comm), comm)
CF_OWN(cf_mpi_comm_dup, PMPI_Comm_dup, (MPI_Comm comm, MPI_Comm *out), comm, out)
CF_OWN(cf_mpi_comm_split, PMPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *out), comm,
       color, key, out)
CF_OWN(cf_mpi_comm_split_type, PMPI_Comm_split_type,
       (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out), comm, type, key, info, out)

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
