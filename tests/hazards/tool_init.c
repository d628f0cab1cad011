/*
 * A tool behind a library that defines MPI functions, too. Its MPI_Init calls MPI_Init_thread by its public name, which is
 * the library's; with BACK the other way round. Then it calls a collective in the same way.
 */
#include <mpi.h>

static void collect(void) {
    int one = 1, sum;

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

#if defined(BACK)
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    (void)required;
    *provided = MPI_THREAD_SINGLE;
    const int err = MPI_Init(argc, argv);
    collect();
    return err;
}
#else
int MPI_Init(int *argc, char ***argv) {
    int provided;
    const int err = MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
    collect();
    return err;
}
#endif
