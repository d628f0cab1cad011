/* A program that knows nothing of MPI and Fortran and loads a library that calls it, as Python
 * loads a module. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*function)(void) = NULL;

    if (library != NULL)
        *(void **)&function = dlsym(library, argv[2]);
    if (function == NULL) {
        (void)fprintf(stderr, "%s\n", argc == 3 ? dlerror() : "usage: load LIBRARY FUNCTION");
        return 1;
    }
    function();
    return 0;
}
