#include "base/symbol.h"

#include <dlfcn.h>
#include <string.h>

bool cf_symbol(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    if (found != NULL)
        memcpy(function, &found, sizeof found); /* ISO C has no cast from object to function */
    return found != NULL;
}
