/* Random calls on random communicators until the time is over, or there are enough of them. */
#include "conformance.h"

#include <time.h>

enum { PLACES = 4, BATCH = 25, RENEWAL = 20 };

static double now(void) {
    struct timespec time;
    must(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Rank 0's clock decides for all. The number of calls is the same on all ranks. */
static bool is_over(double end, long made) {
    int over = program.calls > 0 ? made >= program.calls : now() >= end;
    must(PMPI_Bcast(&over, 1, MPI_INT, 0, program.control) == MPI_SUCCESS);
    return over;
}

/* A split of the world by drawn colors and keys. */
static struct place drawn_place(uint64_t *state) {
    MPI_Comm comm = MPI_COMM_NULL;
    const unsigned colors = 1 + draw(state, 2);
    int color = 0, key = 0;
    for (int r = 0; r < program.world.size; r++) {
        const int drawn_color = (int)draw(state, colors);
        const int drawn_key = (int)draw(state, 100);
        color = r == program.world.rank ? drawn_color : color;
        key = r == program.world.rank ? drawn_key : key;
    }
    must(MPI_Comm_split(program.world.comm, color, key, &comm) == MPI_SUCCESS);
    return place_of("drawn", comm);
}

void check_fuzz(void) {
    const double end = now() + program.seconds;
    uint64_t state = mix(program.seed);
    long made = 0;
    struct place places[PLACES];
    for (int p = 0; p < PLACES; p++)
        places[p] = drawn_place(&state);
    for (unsigned batch = 1; !is_over(end, made); batch++) {
        for (int i = 0; i < BATCH; i++) {
            const struct collective *collective =
                &collectives[draw(&state, (unsigned)ncollectives)];
            const struct place *place = &places[draw(&state, PLACES)];
            const int most = 1 << (4 + draw(&state, 11));
            /* The processes of the parts draw alike, and go on drawing alike. */
            const struct call call = random_call(collective, place, &state, most);
            if (collective_wanted(collective)) {
                (void)verify(program.engine, &call);
                made++;
            }
        }
        if (batch % RENEWAL == 0) {
            struct place *place = &places[draw(&state, PLACES)];
            must(MPI_Comm_free(&place->comm) == MPI_SUCCESS);
            *place = drawn_place(&state);
        }
    }
    for (int p = 0; p < PLACES; p++)
        must(MPI_Comm_free(&places[p].comm) == MPI_SUCCESS);
}
