/* Functions of libraries that are not linked. */
#ifndef COLLFORGE_SYMBOL_H_INCLUDED
#define COLLFORGE_SYMBOL_H_INCLUDED

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Sets a function pointer to the function that dlsym finds. False, with the pointer unchanged, if
 * there is none. */
static inline bool cf_symbol(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    if (found != NULL) {
        memcpy(function, &found, sizeof found); /* ISO C has no cast from object to function */
    }
    return found != NULL;
}

#endif
