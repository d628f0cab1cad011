/*
 * After MPI_Init, and messages between all pairs, a resource of one rank or of all (-1) ends. Then collectives.
 *   limits RESOURCE RANK [KiB of address space left]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void limit(int resource, rlim_t most) {
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = most;
    setrlimit(resource, &now);
}

static rlim_t address_space(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1) abort();
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void end(const char *resource, long left) {
    if (strcmp(resource, "descriptors") == 0) {
        limit(RLIMIT_NOFILE, 256);
        while (open("/dev/null", O_RDONLY) >= 0) continue;
    } else if (strcmp(resource, "address space") == 0) {
        limit(RLIMIT_AS, address_space() + (rlim_t)left * 1024);
    } else if (strcmp(resource, "file size") == 0) {
        limit(RLIMIT_FSIZE, 65536);
    } else if (strcmp(resource, "root") == 0) {
        char empty[] = "/tmp/limits.XXXXXX";
        if (mkdtemp(empty) == NULL || chroot(empty) != 0 || chdir("/") != 0) perror("chroot");
    }
}

int main(int argc, char **argv) {
    int rank, size, other, bad = 0, total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < size; step++)
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + step) % size, 1, &other, 1, MPI_INT, (rank - step + size) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (argc > 2 && (atoi(argv[2]) < 0 || atoi(argv[2]) == rank)) end(argv[1], argc > 3 ? atol(argv[3]) : 0);
    for (int count = 1; count <= 20000; count *= 20) {
        int *in = malloc(sizeof(int) * (size_t)count), *out = malloc(sizeof(int) * (size_t)count);
        for (int i = 0; i < count; i++) in[i] = rank + i;
        MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) bad += out[i] != size * (size - 1) / 2 + size * i;
        MPI_Bcast(in, count, MPI_INT, 0, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) bad += in[i] != i;
        free(in);
        free(out);
    }
    MPI_Reduce(&bad, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) puts(total ? "WRONG" : "passed");
    return 0;
}
