/* Whose Fortran routines a program calls. */
#ifndef COLLFORGE_FORTRAN_H_INCLUDED
#define COLLFORGE_FORTRAN_H_INCLUDED

#include <mpi.h>

/* Any routine; a caller knows its arguments. */
typedef void cf_routine(void);

/*
 * The program's own routine of this name when it is not Open MPI's: the stand-ins for MPI that
 * serial builds of solvers bring (mpi_bcast_, ... in libmpiseq.so) must stay what they are when the
 * library is preloaded under such a program. NULL where the program has Open MPI's Fortran library.
 * caller is an address in the code that called the routine.
 */
cf_routine *cf_foreign_routine(const char *name, const void *caller);

/* Calls MPI_Comm_free or MPI_Comm_disconnect for a Fortran handle. Returns its error. */
int cf_leave(int (*leave)(MPI_Comm *comm), MPI_Fint *comm);

#if defined(OPEN_MPI)
/* Calls MPI_Comm_idup for Fortran handles; MPI_Comm_idup_with_info where info, which only Open MPI
 * 5 has, is not NULL. Returns its error. */
int cf_idup(const MPI_Fint *comm, const MPI_Fint *info, MPI_Fint *made, MPI_Fint *request);
#endif

#endif
