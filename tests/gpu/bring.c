/* A library that loads another one, which its own RUNPATH finds. */
#include <dlfcn.h>
#include <stddef.h>

void *bring(const char *file) {
    return dlopen(file, RTLD_NOW);
}
