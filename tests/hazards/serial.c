/* A serial program with a stub of MPI in a shared library. After lammps/lammps#2606 and MUMPS's libmpiseq. */
#include "serial_stub.h"
#include <stdio.h>
int main(int argc, char **argv) {
    int rank = -1, size = -1, in = 5, out = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    puts(rank == 0 && size == 1 && out == 5 ? "passed" : "failed");
    return 0;
}
