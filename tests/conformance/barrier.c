/* Nobody leaves a barrier before everybody has come: a counter in memory that all share. */
#include "conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 12, COUNTERS = 4096, NAME_SIZE = 256 };

/* Zeroed memory that all ranks of the world map. */
static atomic_int *share_counters(void) {
    const size_t bytes = COUNTERS * sizeof(atomic_int);
    const char *folder = getenv("TMPDIR");
    char name[NAME_SIZE] = "";
    int file = -1;

    if (program.rank == 0) {
        (void)snprintf(name, sizeof name, "%s/conformance-XXXXXX", folder ? folder : "/tmp");
        file = mkstemp(name);
        must(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
    }
    must(PMPI_Bcast(name, NAME_SIZE, MPI_CHAR, 0, program.control) == MPI_SUCCESS);
    if (program.rank != 0)
        file = open(name, O_RDWR);
    must(file >= 0);
    atomic_int *counters = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(counters != MAP_FAILED && close(file) == 0);
    must(PMPI_Barrier(program.control) == MPI_SUCCESS);
    must(program.rank != 0 || unlink(name) == 0);
    return counters;
}

static void pause_until_drawn(uint64_t *state) {
    const struct timespec pause = {.tv_nsec = 1000L * draw(state, 1500)};
    if (draw(state, 2) == 0)
        (void)nanosleep(&pause, NULL);
}

/* counter: of this communicator's own. */
static void meet(const struct collective *collective, const struct place *place,
                 atomic_int *counter) {
    const struct cf_args arguments = {.comm = place->comm};
    uint64_t state = mix(program.seed + 77ULL * (unsigned)program.rank);
    const int before = atomic_load(counter);
    must(PMPI_Barrier(place->comm) == MPI_SUCCESS);
    for (int round = 1; round <= ROUNDS; round++) {
        watch(NULL, collective->name);
        pause_until_drawn(&state);
        atomic_fetch_add(counter, 1);
        expect(collective->call(&arguments) == MPI_SUCCESS, collective->name);
        expect(atomic_load(counter) - before >= round * place->size, place->name);
    }
    must(PMPI_Barrier(place->comm) == MPI_SUCCESS);
}

void check_barrier(void) {
    atomic_int *counters = share_counters();
    const int rank = program.world.rank, size = program.world.size;
    int next = 0;
    for (int c = 0; c < ncollectives; c++) {
        if (!collectives[c].moves_nothing || !collective_wanted(&collectives[c]))
            continue;
        meet(&collectives[c], &program.world, &counters[next++]);
        for (int k = 1; k <= size && next + 2 < COUNTERS; k++, next += 2) {
            MPI_Comm comm = MPI_COMM_NULL;
            must(MPI_Comm_split(program.world.comm, rank < k, -rank, &comm) == MPI_SUCCESS);
            const struct place part = place_of("part", comm);
            meet(&collectives[c], &part, &counters[next + (rank < k)]);
            must(MPI_Comm_free(&comm) == MPI_SUCCESS);
        }
    }
    must(PMPI_Barrier(program.control) == MPI_SUCCESS);
    must(munmap(counters, COUNTERS * sizeof *counters) == 0);
}
