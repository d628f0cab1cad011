/*
 * Included before the source of a program that suite.c runs: main becomes a function of a shared object, and MPI
 * runs already.
 */
#include <mpi.h>

#define main case_main
#define MPI_Init(argc, argv) ((void)(argc), (void)(argv), MPI_SUCCESS)
#define MPI_Init_thread(argc, argv, level, provided) MPI_Query_thread(provided)
#define MPI_Finalize() MPI_SUCCESS
