/* Functions of libraries that are not linked. */
#ifndef COLLFORGE_SYMBOL_H_INCLUDED
#define COLLFORGE_SYMBOL_H_INCLUDED

#include <stdbool.h>

/* Sets a function pointer to the function that dlsym finds. False, with the pointer unchanged, if
 * there is none. */
bool cf_symbol(void *library, const char *name, void *function);

#endif
