/*
 * Tools between a program and its MPI library: they define MPI functions and call PMPI. A native
 * call goes to the next definition after this library, which is a tool's or MPI's own. Tools loaded
 * after this library therefore see it. Tools loaded before it see every call first, and call PMPI
 * directly, past this library.
 */
#ifndef COLLFORGE_CHAIN_H_INCLUDED
#define COLLFORGE_CHAIN_H_INCLUDED

#include "base/runtime.h"

/* Sets a function pointer to the next function of this name; leaves it unchanged if there is
 * none. */
CF_HIDDEN void cf_chain(const char *name, void *function);

/*
 * Defines a function that calls MPI's own one of a name, past this library's definition. In a
 * program that is linked with all of MPI there is no next definition, and the only one is MPI's.
 */
#define CF_OWN(name, function, parameters, ...)                                                    \
    CF_OWN_OF(name, function, #function, parameters, __VA_ARGS__)
/* text: the function's name. */
#define CF_OWN_OF(name, function, text, parameters, ...)                                           \
    int name parameters {                                                                          \
        static int(*_Atomic own) parameters = NULL;                                                \
        int(*found) parameters = own;                                                              \
        if (found == NULL) {                                                                       \
            found = function;                                                                      \
            cf_chain(text, &found);                                                                \
            own = found;                                                                           \
        }                                                                                          \
        return found(__VA_ARGS__);                                                                 \
    }

/*
 * MPI's own functions, for communicators of this library. PMPI_Comm_free and so on may be this
 * library's definitions (comm/free.c, comm/made.c). Looked up at the first call, because the
 * libraries of an application are initialised before this one, and may start MPI then.
 */
int cf_mpi_comm_free(MPI_Comm *comm);
int cf_mpi_comm_disconnect(MPI_Comm *comm);
int cf_mpi_comm_dup(MPI_Comm comm, MPI_Comm *out);
int cf_mpi_comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
int cf_mpi_comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out);

/* The file whose definition of a name the program uses, if it is not this library; else NULL. */
const char *cf_file_before(const char *name);
/* The file whose definition of a name the program uses, if another file's definition of the other
 * name is used; NULL if they are in one file, or there is none. */
const char *cf_file_unlike(const char *name, const char *other);

#endif
