/* Calls on end, to be killed in the middle of them. Each rank says once that it is well under way, its process and that
 * which has started it. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { WORDS = 20000, SAID = 50 };

int main(int argc, char **argv) {
    static int a[WORDS], b[WORDS];
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    (void)alarm(100);
    for (long i = 0;; i++) {
        MPI_Allreduce(a, b, WORDS, MPI_INT, MPI_SUM, i % 2 == 0 ? comm : MPI_COMM_WORLD);
        MPI_Bcast(a, WORDS, MPI_INT, 0, comm);
        if (i == SAID) {
            printf("rank %d %d\n", (int)getpid(), (int)getppid());
            fflush(stdout);
        }
    }
}
