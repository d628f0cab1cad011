/* Finds which library's Fortran routines a program calls. */
#ifndef COLLFORGE_FORTRAN_H_INCLUDED
#define COLLFORGE_FORTRAN_H_INCLUDED

#include <mpi.h>

/* Any routine; the caller casts it. */
typedef void cf_routine(void);

/*
 * The program's own routine of this name if it is not Open MPI's. Serial builds of solvers bring
 * stubs for MPI (mpi_bcast_, ... in libmpiseq.so), which must keep working under a preloaded
 * library. NULL if the program uses Open MPI's Fortran library. caller is an address in the code
 * that called the routine.
 */
cf_routine *cf_foreign_routine(const char *name, const void *caller);

/* Calls MPI_Comm_free or MPI_Comm_disconnect on a Fortran handle. Returns its error. */
int cf_leave(int (*leave)(MPI_Comm *comm), MPI_Fint *comm);

#endif
