! What differs between Fortran's three interfaces to MPI: INTERFACE 1 is mpif.h, 2 `use mpi`, 3 `use mpi_f08`.
#if INTERFACE == 1
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#elif INTERFACE == 2
#define USE_MPI use mpi
#define INCLUDE_MPI
#else
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#endif

#if INTERFACE == 3
#define COMMUNICATOR type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
#define OPERATION type(MPI_Op)
#define HANDLER type(MPI_Errhandler)
! The optional argument is left out.
#define IERR
#define IERR_ALONE
#else
#define COMMUNICATOR integer
#define DATATYPE integer
#define OPERATION integer
#define HANDLER integer
#define IERR , ierr
#define IERR_ALONE ierr
#endif
