/*
 * An MPI program that knows nothing of Collforge: it prints what its collectives give, of many
 * sizes, on MPI_COMM_WORLD and on communicators of its own, twice. In between rank 0 does to the
 * file PATH what it is told: program [delete PATH | replace PATH NEW].
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 15 };

static int rank, size;

static void need(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int32_t value_of(int from, int i) {
    return (int32_t)((uint32_t)from * 2654435761u + (uint32_t)i * 40503u);
}

static uint32_t sum_of(const int32_t *values, int count) {
    uint32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum = sum * 31u + (uint32_t)values[i];
    return sum;
}

/* Prints the sums of the results on all ranks of comm, in their order. */
static void show(MPI_Comm comm, const char *name, int count, const int32_t *result, int length) {
    int p = 0, me = 0;
    const uint32_t own = sum_of(result, length);
    uint32_t sums[64];
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &me);
    need(p <= 64, "too many ranks");
    MPI_Gather(&own, 1, MPI_UINT32_T, sums, 1, MPI_UINT32_T, 0, comm);
    if (me != 0 || rank != 0)
        return;
    printf("%s %d:", name, count);
    for (int r = 0; r < p; r++)
        printf(" %u", sums[r]);
    puts("");
}

static void call_all(MPI_Comm comm, int count) {
    int p = 0, me = 0;
    MPI_Comm_size(comm, &p);
    MPI_Comm_rank(comm, &me);
    const size_t most = (size_t)p * (size_t)count;
    int32_t *in = malloc(most * sizeof *in);
    int32_t *out = calloc(most, sizeof *out);
    need(in != NULL && out != NULL, "memory is out");
    for (size_t i = 0; i < most; i++)
        in[i] = value_of(rank, (int)i);
    memcpy(out, in, (size_t)count * sizeof *in);
    need(MPI_Bcast(out, count, MPI_INT32_T, p - 1, comm) == MPI_SUCCESS, "bcast");
    show(comm, "bcast", count, out, count);
    need(MPI_Allreduce(in, out, count, MPI_INT32_T, MPI_MAX, comm) == MPI_SUCCESS, "allreduce");
    show(comm, "allreduce", count, out, count);
    need(MPI_Allgather(in, count, MPI_INT32_T, out, count, MPI_INT32_T, comm) == MPI_SUCCESS,
         "allgather");
    show(comm, "allgather", count, out, (int)most);
    need(MPI_Alltoall(in, count, MPI_INT32_T, out, count, MPI_INT32_T, comm) == MPI_SUCCESS,
         "alltoall");
    show(comm, "alltoall", count, out, (int)most);
    need(MPI_Scan(in, out, count, MPI_INT32_T, MPI_BXOR, comm) == MPI_SUCCESS, "scan");
    show(comm, "scan", count, out, count);
    need(MPI_Barrier(comm) == MPI_SUCCESS, "barrier");
    free(in);
    free(out);
}

static void call_everywhere(void) {
    MPI_Comm reversed = MPI_COMM_NULL, half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    for (int count = 1; count <= MOST; count *= 8) {
        call_all(MPI_COMM_WORLD, count);
        call_all(reversed, count);
        call_all(half, count);
    }
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv) {
    need(MPI_Init(&argc, &argv) == MPI_SUCCESS, "MPI_Init");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    call_everywhere();
    if (rank == 0 && argc == 3 && strcmp(argv[1], "delete") == 0)
        need(remove(argv[2]) == 0, "cannot delete");
    if (rank == 0 && argc == 4 && strcmp(argv[1], "replace") == 0)
        need(rename(argv[3], argv[2]) == 0, "cannot replace");
    MPI_Barrier(MPI_COMM_WORLD);
    call_everywhere();
    return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
