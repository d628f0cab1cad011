/* Info keys on communicators: collforge=native, by MPI_Comm_set_info and MPI_Comm_dup_with_info, and what duplicates have. */
#include <collforge.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int size = 0;

/* Whether an allreduce on the communicator is right, and as it should be. */
static int is(MPI_Comm comm, int native) {
    char name[256] = "";
    int one = 1, sum = 0;
    for (int i = 0; i < 3; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (sum != size)
            return 0;
    }
    collforge_choice(comm, "allreduce", sizeof one, name, sizeof name);
    return (strcmp(name, "native") == 0) == native;
}

int main(int argc, char **argv) {
    MPI_Comm first = MPI_COMM_NULL, second = MPI_COMM_NULL, third = MPI_COMM_NULL, fourth = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL, other = MPI_INFO_NULL;
    int good = 1, all = 0, rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Info_create(&info);
    MPI_Info_set(info, "collforge", "native");
    MPI_Info_create(&other);
    MPI_Info_set(other, "collforge", "variants");
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    good &= is(first, 0);
    MPI_Comm_set_info(first, other);
    good &= is(first, 0);
    MPI_Comm_set_info(first, info);
    good &= is(first, 1);
    MPI_Comm_set_info(first, info);
    good &= is(first, 1);
    MPI_Comm_dup(first, &second);
    good &= is(second, MPI_VERSION < 4);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &third);
    good &= is(third, 1);
    MPI_Comm_split(first, 0, rank, &fourth);
    good &= is(fourth, 0);
    good &= is(MPI_COMM_WORLD, 0);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
    MPI_Comm_free(&third);
    MPI_Comm_free(&fourth);
    MPI_Info_free(&info);
    MPI_Info_free(&other);
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all ? "passed" : "failed");
    return MPI_Finalize();
}
