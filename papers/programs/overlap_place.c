#include "overlap_place.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

/* The first n of the cores, and the others. */
static void divide(const cpu_set_t *cores, int n, cpu_set_t *first, cpu_set_t *others) {
    CPU_ZERO(first);
    CPU_ZERO(others);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, cores)) {
            CPU_SET(core, n > 0 ? first : others);
            n--;
        }
    }
}

/* The threads of this process but the calling one; binds them unless cores is NULL. */
static int other_threads(const cpu_set_t *cores, bool *bound) {
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry = NULL;
    int n = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const int thread = (int)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && thread != (int)getpid()) {
            n++;
            *bound =
                *bound && (cores == NULL || sched_setaffinity(thread, sizeof *cores, cores) == 0);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

/* A rank's share of its machine's cores on which nothing computes; -1: there are too few. *own:
 * whether no two of its ranks share a core. */
static int spare_cores(const struct clock *clock, const cpu_set_t *mine, int threads, int *own) {
    cpu_set_t all = *mine;
    int sums[3] = {threads, CPU_COUNT(mine), 1};
    must(MPI_Allreduce(MPI_IN_PLACE, &all, sizeof all, MPI_BYTE, MPI_BOR, clock->domain_comm),
         "MPI_Allreduce");
    must(MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INT, MPI_SUM, clock->domain_comm),
         "MPI_Allreduce");
    *own = sums[1] == CPU_COUNT(&all);
    const int spare = CPU_COUNT(&all) - sums[0];
    return spare < 0 ? -1 : spare / sums[2];
}

struct place place_threads(const struct clock *clock, int threads, bool apart) {
    cpu_set_t mine, first, others;
    int votes[3] = {0}; /* spare cores, threads that were started, room for these */
    bool bound = true;

    if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
        fail(EXIT_TROUBLE, "the cores of a rank cannot be read");
    }
    votes[0] = spare_cores(clock, &mine, threads, &votes[2]);
    votes[1] = other_threads(NULL, &bound);
    votes[2] = votes[2] && CPU_COUNT(&mine) > threads;
    must(MPI_Allreduce(MPI_IN_PLACE, votes, 3, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
    apart = apart && votes[2];
    if (apart) {
        divide(&mine, threads, &first, &others);
        (void)other_threads(&others, &bound);
        int all_bound = bound && sched_setaffinity(0, sizeof first, &first) == 0;
        must(MPI_Allreduce(MPI_IN_PLACE, &all_bound, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
             "MPI_Allreduce");
        apart = all_bound;
    }
    return (struct place){votes[0], votes[1], apart};
}
