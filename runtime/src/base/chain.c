#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include "base/chain.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/cf.h"
#include "base/log.h"
#include "base/symbol.h"

void cf_chain(const char *name, void *function) {
    (void)cf_symbol(RTLD_NEXT, name, function);
}

/* The file whose definition of a name the program uses, if it is not this library; else NULL. */
static const char *file_before(const char *name) {
    Dl_info own;
    Dl_info first;
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL || dladdr(found, &first) == 0 || dladdr(cf_fingerprint, &own) == 0)
        return NULL;
    return first.dli_fbase == own.dli_fbase ? NULL : first.dli_fname;
}

void cf_chain_check(void) {
    for (int i = 0; i < cf_ncollectives; i++) {
        const char *file =
            cf_collectives[i].hybrid ? NULL : file_before(cf_collectives[i].function);
        if (file != NULL) {
            cf_warn(
                "%s is called in %s and passes this library by: preload libcollforge.so before it",
                cf_collectives[i].function, file);
            return;
        }
    }
}
