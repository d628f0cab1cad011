/*
 * Others that stand between a program and its MPI library: tools that define MPI functions and call
 * PMPI's. A native call goes to the next one after this library, which is a tool or MPI itself, so
 * that tools that are loaded after this library see it. Those that are loaded before it see every
 * call first and pass by what stands between them and PMPI.
 */
#ifndef COLLFORGE_CHAIN_H_INCLUDED
#define COLLFORGE_CHAIN_H_INCLUDED

#include "base/runtime.h"

/* Puts the next function of this name into a function pointer, which stays as it is where there is
 * none. */
CF_HIDDEN void cf_chain(const char *name, void *function);

/* Warns of collectives that the program calls past this library. */
void cf_chain_check(void);

#endif
