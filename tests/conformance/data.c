/* What every collective does with its arguments, systematically. */
#include "conformance.h"

/* Nothing, one, few, more than an eager message. */
static const int counts[] = {0, 1, 7, 601};
enum { NCOUNTS = sizeof counts / sizeof *counts, LARGE = 30011 };

static struct call call_of(const struct collective *collective, const struct shape *shape) {
    return (struct call){
        .collective = collective,
        .place = &program.world,
        .shape = shape,
        .op = collective->reduces ? operation_for(shape, program.seed) : NULL,
        .count = 1,
        .seed = program.seed,
    };
}

/* Roots to go through; one where there is none. */
static int roots_of(const struct collective *collective) {
    return collective->rooted ? program.world.size : 1;
}

static void with_all_counts(struct call call) {
    for (call.root = 0; call.root < roots_of(call.collective); call.root++) {
        for (int i = 0; i < NCOUNTS; i++) {
            call.count = counts[i];
            call.seed++;
            (void)verify(program.engine, &call);
        }
    }
}

void check_data(void) {
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]))
            continue;
        for (int s = 0; s < nshapes; s++)
            with_all_counts(call_of(&collectives[c], shapes[s]));
        struct call call = call_of(&collectives[c], &shape_double);
        call.count = LARGE;
        call.root = roots_of(call.collective) - 1;
        (void)verify(program.engine, &call);
    }
}

void check_signatures(void) {
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]) || collectives[c].reduces)
            continue;
        for (int s = 0; s < nshapes; s++) {
            struct call call = call_of(&collectives[c], shapes[s]);
            if (shapes[s]->ntypes == 1)
                continue;
            /* The seed decides which rank passes which type. */
            for (int i = 0; i < 2; i++, call.seed++)
                with_all_counts(call);
        }
    }
}

void check_in_place(void) {
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]) || collectives[c].in_place == IN_PLACE_NONE)
            continue;
        for (int s = 0; s < nshapes; s++) {
            struct call call = call_of(&collectives[c], shapes[s]);
            call.in_place = true;
            with_all_counts(call);
        }
    }
}

void check_insignificant(void) {
    static const struct shape *const some[] = {&shape_int, &shape_pair, &shape_empty};
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]))
            continue;
        for (int s = 0; s < 3; s++) {
            struct call call = call_of(&collectives[c], some[s]);
            for (call.garbage = GARBAGE_NULL; call.garbage < NGARBAGES; call.garbage++) {
                for (int in_place = 0; in_place < 2; in_place++) {
                    call.in_place = in_place == 1;
                    with_all_counts(call);
                }
            }
        }
    }
}

static void irregular(struct call call) {
    for (call.spread = SPREAD_EVEN; call.spread < NSPREADS; call.spread++) {
        for (call.placement = PLACED_PACKED; call.placement < NPLACEMENTS; call.placement++) {
            for (int i = 1; i < NCOUNTS; i++) {
                call.count = counts[i] + 1;
                call.garbage = (enum garbage)(call.seed % NGARBAGES);
                call.root = (call.root + 1) % roots_of(call.collective);
                call.seed++;
                (void)verify(program.engine, &call);
            }
        }
    }
}

void check_irregular(void) {
    for (int c = 0; c < ncollectives; c++) {
        if (!collective_wanted(&collectives[c]) || collectives[c].varies == VARIES_NO)
            continue;
        for (int s = 0; s < nshapes; s++) {
            struct call call = call_of(&collectives[c], shapes[s]);
            irregular(call);
            call.in_place = true;
            if (collectives[c].in_place != IN_PLACE_NONE)
                irregular(call);
        }
    }
}

/* Every operation with every type that it takes. */
static void operate(const struct collective *collective, const struct shape *shape) {
    for (int o = 0; o < NOPERATIONS; o++) {
        struct call call = call_of(collective, shape);
        if (!operation_fits(&operations[o], shape))
            continue;
        call.op = &operations[o];
        call.strict = true;
        for (int i = 1; i < NCOUNTS; i++) {
            call.count = counts[i];
            call.spread = (enum spread)(call.seed % NSPREADS);
            call.root = (call.root + 1) % roots_of(collective);
            call.in_place = !call.in_place;
            call.seed++;
            (void)verify(program.engine, &call);
        }
    }
}

void check_operations(void) {
    for (int c = 0; c < ncollectives; c++)
        for (int s = 0; s < nshapes && collectives[c].reduces; s++)
            if (collective_wanted(&collectives[c]))
                operate(&collectives[c], shapes[s]);
}

/* ---- drawn calls ---------------------------------------------------------------------------- */

struct call random_call(const struct collective *collective, const struct place *place,
                        uint64_t *state, int most) {
    const struct shape *shape = shapes[draw(state, (unsigned)nshapes)];
    const unsigned op = draw(state, NOPERATIONS);
    /* As many small counts as large ones. */
    const unsigned bound = 1U << draw(state, 1 + (unsigned)__builtin_ctz((unsigned)most));
    return (struct call){
        .collective = collective,
        .place = place,
        .shape = shape,
        .op = collective->reduces ? operation_for(shape, op) : NULL,
        .count = (int)draw(state, bound + 1),
        .root = collective->rooted ? (int)draw(state, (unsigned)place->size) : 0,
        .in_place = draw(state, 3) == 0,
        .spread = (enum spread)draw(state, NSPREADS),
        .placement = (enum placement)draw(state, NPLACEMENTS),
        .garbage = (enum garbage)draw(state, NGARBAGES),
        .seed = draw(state, 1U << 30),
    };
}

void panel(struct engine *engine, const struct place *place, int calls, unsigned seed) {
    uint64_t state = mix(program.seed) + mix(seed);
    for (int c = 0; c < ncollectives; c++) {
        for (int i = 0; i < calls && collective_wanted(&collectives[c]); i++) {
            const struct call call = random_call(&collectives[c], place, &state, 1 << 9);
            (void)verify(engine, &call);
        }
    }
}
