/* Repetitions of a type that is predefined but has no name: nobody may free it. */
#include <mpi.h>
#include <stdio.h>

enum { WORDS = 10, CALLS = 3 };

int main(int argc, char **argv) {
    MPI_Datatype real, reals;
    double a[WORDS];
    int rank, wrong = 0, total = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_create_f90_real(15, 307, &real);
    MPI_Type_contiguous(WORDS, real, &reals);
    MPI_Type_commit(&reals);
    for (int n = 0; n < CALLS; n++) {
        for (int i = 0; i < WORDS; i++)
            a[i] = rank == 0 ? i + n : -1;
        MPI_Bcast(a, 1, reals, 0, MPI_COMM_WORLD);
        for (int i = 0; i < WORDS; i++)
            wrong += a[i] != i + n;
    }
    MPI_Type_free(&reals);
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        puts(total == 0 ? "passed" : "failed");
    return MPI_Finalize();
}
