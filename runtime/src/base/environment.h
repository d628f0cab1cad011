/* The environment variables of the runtime. Those of world rank 0 apply to all ranks. The
 * exceptions, PROGRESS, THREAD_MULTIPLE and START_TIMEOUT, are needed before ranks can communicate,
 * so each rank reads its own. */
#ifndef COLLFORGE_ENVIRONMENT_H_INCLUDED
#define COLLFORGE_ENVIRONMENT_H_INCLUDED

#include <stdbool.h>
#include <stdio.h>

/* use(name, form of the value, meaning): also the table of docs/using.md and the manual page. */
/* clang-format off */
#define CF_VARIABLES(use) \
    use(DB, "FILE", \
        "the database of winners, or a published file. If it is missing, damaged, or of " \
        "another MPI library or schema: one warning, native collectives") \
    use(DB_SHA256, "HEX", \
        "the SHA-256 digest of a published file, which COLLFORGE_DB must then name: another " \
        "file, or a changed one, is ignored with one warning. The modules set it") \
    use(SYSTEM, "NAME", \
        "the system whose winners apply. Default: the one whose host pattern matches, or the " \
        "only one stored") \
    use(DISABLE, "1", \
        "native collectives") \
    use(FORCE, "'allreduce=full_lane;*=hierarchical'", \
        "every applicable call uses that variant. A number of lanes or threads above the " \
        "maximum is reduced to it") \
    use(NATIVE_ORDER, "1", \
        "all collectives with an op run native, so float results are bit-identical to native. " \
        "Without it, results may differ from native in the last bits. They are equal on all " \
        "ranks of an allreduce, and in all runs with the same layout and database, unless a " \
        "node has no room for a shared-memory window (a warning says so)") \
    use(SPLIT_OPS, "1", \
        "variants may call the program's own ops (MPI_Op_create) with parts of a vector, as MPI " \
        "allows. Default: calls with such ops run native, because programs exist whose ops need " \
        "the whole vector, and MPI libraries split long vectors only") \
    use(CHECK_OPS, "1", \
        "names the ops of the program whose result depends on the length that they are called " \
        "with: each is tried once, on the data of its first call") \
    use(REPRODUCIBLE, "1", \
        "reductions in one order for all sizes on a communicator; no guard and no re-tests. " \
        "Default: each size has the order of its winner") \
    use(GUARD, "0, 1 or reductions", \
        "the guard of layouts that were not measured. 1 (default): a winner expected there is " \
        "tried against native first, except in reductions, whose results would differ in " \
        "their last bits from call to call; reductions: there, too; 0: never. The same holds " \
        "for re-tests of all winners") \
    use(GUARD_AFTER, "SECONDS", \
        "how long native calls of a size take on a communicator before the guard tries a " \
        "variant there (default 1.5), or as long as it took to set another one up in this job, " \
        "if that is less; 0: at the first calls") \
    use(NONBLOCKING, "1", \
        "variants serve nonblocking collectives, too, and go on whenever the MPI library makes " \
        "progress (Open MPI; MPICH from 4.3 on; others with COLLFORGE_PROGRESS). Default: these run " \
        "native") \
    use(PROGRESS, "thread or thread:CORE", \
        "beside COLLFORGE_NONBLOCKING: a thread in each process that makes variants go on while " \
        "the program computes. It requests MPI_THREAD_MULTIPLE of the MPI library, with which " \
        "one-sided communication of Open MPI 4 fails on networks without RDMA. CORE: the one that " \
        "it is bound to, counted from 0 among the cores of the process, or from -1 backwards; the " \
        "program should not compute there") \
    use(MEMORY, "SIZE", \
        "limit of the variants' temporaries in a process (default 64M). A call whose " \
        "estimated temporaries are larger runs native, except at sizes up to twice the one at " \
        "which its winner was measured. Memory above the limit is freed after the call") \
    use(GPU, "stage or native", \
        "GPU buffers. stage (default): variants run on copies in host memory. native: the " \
        "whole job runs native if a rank has a GPU runtime when MPI starts") \
    use(THREAD_MULTIPLE, "1 or always", \
        "requests MPI_THREAD_MULTIPLE of the MPI library, so that collectives outside the " \
        "program's parallel regions may use its idle threads. 1: only for programs with an " \
        "OpenMP runtime, beside COLLFORGE_DB or COLLFORGE_FORCE, and not with Open MPI 4, whose " \
        "one-sided communication then fails on networks without RDMA; always: there, too, for " \
        "programs without one-sided communication. The program itself sees the level that it " \
        "asked for") \
    use(START_TIMEOUT, "SECONDS", \
        "all ranks have the library: if the launcher (Slurm's PMI-2) cannot tell, they wait so " \
        "long for each other in MPI_Init, and then the job ends. Without it all calls are native " \
        "there. On all ranks") \
    use(NODE_MAP, "2 or 3,1 or map:0,1,0,1", \
        "pretended nodes, for tests on one machine") \
    use(VERBOSE, "0..2", \
        "0 (default): at most one warning; 1: also the number of winners, why none apply, and at " \
        "the end what they served and saved on rank 0; 2: also the variant of each size (native while it waits for a trial), once") \
    use(REPORT, "SECONDS or USR1 or USR2", \
        "for a job that hangs: on this signal, and once for a blocking collective that lasts " \
        "longer, each rank prints the collective, its size, layout and variant. Both: 60,USR2") \
    use(PROFILE, "FILE", \
        "writes what the application calls, as CSV. Programs that are spawned write the file, " \
        "too: give them another") \
    use(USAGE, "DIR", \
        "appends a line to a file of the user in this folder when a job ends: date, MPI library, " \
        "layout, calls served, estimated time saved on rank 0; nothing of the program " \
        "(`collforge db usage` counts them)") \
    use(LEARN, "DIR", \
        "writes a small file to this folder when a job ends: how variants did beside native in " \
        "the trials of the guard; nothing of the program. `collforge db learn` takes such files " \
        "in. At most 64 of a user; silently nothing where none can be written")
/* clang-format on */

#define CF_VARIABLE_ENTRY(name, form, meaning) CF_VARIABLE_##name,
enum cf_variable { CF_VARIABLES(CF_VARIABLE_ENTRY) };
#undef CF_VARIABLE_ENTRY

/* The variable's value when the first one was read, in MPI_Init; NULL if it was unset or empty, and
 * in programs that run with other rights than their user's. The paths of PROFILE, USAGE
 * and LEARN are absolute. */
const char *cf_variable(enum cf_variable variable);
/* The index of its value in words[n]; usual if it is unset. Warns of any other value. */
int cf_variable_word(enum cf_variable variable, const char *const words[], int n, int usual);
/* Whether it is set to anything but 0. */
bool cf_variable_is_on(enum cf_variable variable);
/* Warns of variables with our prefix that are one letter off one of these. */
void cf_variables_check(void);
/* Prints the table of the docs. */
void cf_variables_print(FILE *file);

#endif
