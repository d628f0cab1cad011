/* Functions of libraries that are not linked. */
#ifndef COLLFORGE_SYMBOL_H_INCLUDED
#define COLLFORGE_SYMBOL_H_INCLUDED

#include <stdbool.h>

/* Puts the function of this name, as dlsym finds it, into a function pointer. False where there is
 * none: the pointer stays as it is. */
bool cf_symbol(void *library, const char *name, void *function);

#endif
