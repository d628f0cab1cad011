/*
 * More bytes than an int counts, in buffers whose pages are the same few all over: a page of each
 * process stands at every PERIOD-th place. Contents repeat with the pages, so data that went to its
 * place is right, whichever copy wrote it.
 */
#define _GNU_SOURCE
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { UNIT = 1 << 20, PERIOD = 37 }; /* bytes of the datatype's element; elements that differ */

struct window {
    int file;
    char *at;
    size_t units;
};

static void fill_unit(uint64_t *words, unsigned unit) {
    for (size_t i = 0; i < UNIT / sizeof *words; i++)
        words[i] = mix(((uint64_t)unit << 32) + i);
}

/* Memory of units elements; the first is number first of the contents. */
static void window_open(struct window *window, size_t units, size_t first, bool filled) {
    uint64_t *unit = xmalloc(UNIT);
    window->units = units;
    window->file = (int)syscall(SYS_memfd_create, "conformance", 0U);
    must(window->file >= 0);
    memset(unit, 0, UNIT);
    for (unsigned u = 0; u < PERIOD; u++) {
        if (filled)
            fill_unit(unit, u);
        must(write(window->file, unit, UNIT) == UNIT);
    }
    free(unit);
    window->at = mmap(NULL, (units + 1) * UNIT, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(window->at != MAP_FAILED);
    for (size_t u = 0; u < units;) {
        const size_t page = (first + u) % PERIOD;
        const size_t run = PERIOD - page < units - u ? PERIOD - page : units - u;
        must(mmap(window->at + u * UNIT, run * UNIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                  window->file, (off_t)(page * UNIT)) != MAP_FAILED);
        u += run;
    }
}

static bool window_is_right(const struct window *window, size_t first) {
    uint64_t *unit = xmalloc(UNIT);
    bool right = true;
    for (size_t u = 0; u < window->units && u < PERIOD; u++) {
        fill_unit(unit, (unsigned)((first + u) % PERIOD));
        right = right && memcmp(unit, window->at + u * UNIT, UNIT) == 0;
    }
    free(unit);
    return right;
}

static void window_close(struct window *window) {
    must(munmap(window->at, (window->units + 1) * UNIT) == 0 && close(window->file) == 0);
}

/*
 * Blocks of count elements. Block b of a rank's input begins with unit (rank + b) x count of the
 * contents, so that what a rank receives goes on from block to block, too: bcast's from 0,
 * allgather's from 0, alltoall's from rank x count.
 */
static void transfer(const struct collective *collective, MPI_Datatype type, int count) {
    char text[CASE_SIZE];
    const struct place *world = &program.world;
    const size_t inputs = (size_t)collective->in_blocks(world->rank, 0, world->size);
    const size_t results = (size_t)collective->out_blocks(world->rank, 0, world->size);
    const int block = results == 0 ? 0
                                   : collective->first(world->rank, 0, 0, world->size) +
                                         collective->source_block(world->rank, 0, 0, world->size);
    const size_t first = (size_t)block * (size_t)count;
    struct window send, recv;
    int *counts = xmalloc((size_t)world->size * sizeof *counts);
    int *displs = xmalloc((size_t)world->size * sizeof *displs);

    (void)snprintf(text, sizeof text, "%s@world,ranks=%d,count=%d,type=%d bytes", collective->name,
                   world->size, count, UNIT);
    watch(NULL, text);
    for (int r = 0; r < world->size; r++) {
        counts[r] = count;
        displs[r] = r * count;
    }
    window_open(&send, collective->single_buffer ? 0 : inputs * (size_t)count,
                (size_t)world->rank * (size_t)count, true);
    window_open(&recv, results * (size_t)count, first, collective->single_buffer && inputs > 0);
    const struct cf_args arguments = {.sendbuf = send.at,
                                      .sendcount = count,
                                      .sendcounts = counts,
                                      .sdispls = displs,
                                      .sendtype = type,
                                      .recvbuf = recv.at,
                                      .recvcount = count,
                                      .recvcounts = counts,
                                      .rdispls = displs,
                                      .recvtype = type,
                                      .comm = world->comm};
    expect(collective->call(&arguments) == MPI_SUCCESS, text);
    expect(window_is_right(&recv, first), text);
    window_close(&send);
    window_close(&recv);
    free(counts);
    free(displs);
}

void check_huge(void) {
    const int size = program.world.size;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    must(MPI_Type_contiguous(UNIT, MPI_BYTE, &type) == MPI_SUCCESS);
    must(MPI_Type_commit(&type) == MPI_SUCCESS);
    for (int c = 0; c < ncollectives; c++) {
        const struct collective *collective = &collectives[c];
        if (!collective_wanted(collective) || collective->reduces || collective->moves_nothing)
            continue;
        if (is_hit_when_huge(collective)) {
            atomic_fetch_add(&program_skipped, 1);
            continue;
        }
        /* A block, or all blocks of a rank, beyond 2^31 bytes. */
        const bool many =
            collective->in_blocks(0, 0, 2) == 2 || collective->out_blocks(0, 0, 2) == 2;
        transfer(collective, type, many ? 2049 / size + 1 : 2049);
    }
    must(MPI_Type_free(&type) == MPI_SUCCESS);
}
