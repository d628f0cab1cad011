/* The environment variables of the runtime. Those of world rank 0 apply to all ranks. The
 * exceptions, THREAD_MULTIPLE and START_TIMEOUT, are needed before ranks can communicate, so each
 * rank reads its own. */
#ifndef COLLFORGE_ENVIRONMENT_H_INCLUDED
#define COLLFORGE_ENVIRONMENT_H_INCLUDED

#include <stdbool.h>
#include <stdio.h>

/* use(name, form of the value, meaning); docs/using.md repeats them. */
/* clang-format off */
#define CF_VARIABLES(use) \
    use(DB, "FILE", \
        "the database of winners, or a published file of them (none: native collectives)") \
    use(DB_SHA256, "HEX", \
        "the SHA-256 digest that the published file must have (else: native collectives)") \
    use(SYSTEM, "NAME", \
        "whose winners apply (the system whose host pattern matches, or the only one stored)") \
    use(DISABLE, "1", \
        "native collectives") \
    use(FORCE, "'allreduce=full_lane;*=hierarchical'", \
        "every applicable call takes that variant") \
    use(NATIVE_ORDER, "1", \
        "native collectives wherever an op is applied: float results are bit-identical to " \
        "native") \
    use(REPRODUCIBLE, "1", \
        "reductions in one order for all sizes on a communicator: an element's bits depend " \
        "neither on the vector's length nor on the call; no guard") \
    use(GUARD, "0, 1 or reductions", \
        "variants expected to be fast on a layout that was not measured are tried against native " \
        "first (1); never (0); also where float results then differ in their last bits " \
        "(reductions)") \
    use(GUARD_AFTER, "SECONDS", \
        "how long native serves such calls on a communicator before their variant is tried (1.5)") \
    use(MEMORY, "SIZE", \
        "what temporaries may take in a process (64M); calls that need more are native, except at " \
        "sizes up to twice the measured one") \
    use(GPU, "stage or native", \
        "calls with buffers in a GPU's memory: on copies in host memory (stage), or all " \
        "native") \
    use(THREAD_MULTIPLE, "1", \
        "asks for MPI_THREAD_MULTIPLE in the program's name, for collectives on idle threads") \
    use(NODE_MAP, "2 or 3,1 or map:0,1,0,1", \
        "pretended nodes, for tests on one machine") \
    use(VERBOSE, "0..2", \
        "1 tells what is active, 2 each distinct decision (0: warnings only)") \
    use(PROFILE, "FILE", \
        "counts the program's collectives by layout and size") \
    use(START_TIMEOUT, "SECONDS", \
        "how long ranks wait in MPI_Init for one without the library (300)")
/* clang-format on */

#define CF_VARIABLE_ENTRY(name, form, meaning) CF_VARIABLE_##name,
enum cf_variable { CF_VARIABLES(CF_VARIABLE_ENTRY) };
#undef CF_VARIABLE_ENTRY

/* The variable's value; NULL if unset or empty. */
const char *cf_variable(enum cf_variable variable);
/* Whether it is set to anything but 0. */
bool cf_variable_is_on(enum cf_variable variable);
/* Prints the table of the docs. */
void cf_variables_print(FILE *file);

#endif
