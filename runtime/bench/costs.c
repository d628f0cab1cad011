/*
 * Other costs of a call than its time: processor time, so that a variant that keeps more cores busy
 * is visible, and the memory of its temporaries. Measured apart from the samples, which this would
 * disturb.
 */
#include <sys/resource.h>

#include "bench.h"
#include "data/facts.h"
#include "data/tmpbuf.h"
#include "report.h"

/* Few calls suffice above this: getrusage counts microseconds. */
static const double long_call = 10e-3;
enum { SHORT_CALLS = 32, LONG_CALLS = 2 };

/* User and system time of this process so far. */
static double processor_seconds(void) {
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return 0;
    }
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Frees the temporaries first, so that afterwards only this call's exist. */
static void measure_memory(struct bench *bench, struct candidate *candidate) {
    struct cf_tmpbufs *tmpbufs = &comm_of(bench)->tmpbufs;
    struct cf_facts facts;

    if (candidate->choice.variant != NULL) {
        cf_facts_fill(&facts, &comm_of(bench)->layout, bench->data.problem->collective,
                      bench->data.problem->bytes, MPI_SUM);
        candidate->memory_estimate = cf_memory_estimate(&candidate->choice, &facts);
    }
    cf_tmpbufs_free(tmpbufs);
    reset_for(bench, candidate);
    check_candidate(bench, candidate, call_candidate(bench, candidate));
    for (int slot = 0; slot < CF_TMPBUF_SLOTS; slot++) {
        candidate->memory += (int64_t)tmpbufs->capacity[slot];
    }
    must(PMPI_Allreduce(MPI_IN_PLACE, &candidate->memory, 1, MPI_INT64_T, MPI_MAX, bench->comm),
         "MPI_Allreduce");
}

/* Waiting for other ranks inside the call counts, waiting before it does not. */
static void measure_processor_time(struct bench *bench, struct candidate *candidate, int calls) {
    for (int i = 0; i < calls; i++) {
        reset_for(bench, candidate);
        must(PMPI_Barrier(bench->comm), "MPI_Barrier");
        const double before = processor_seconds();
        const int err = call_candidate(bench, candidate);
        candidate->cpu += (processor_seconds() - before) / calls;
        check_candidate(bench, candidate, err);
    }
    must(PMPI_Allreduce(MPI_IN_PLACE, &candidate->cpu, 1, MPI_DOUBLE, MPI_SUM, bench->comm),
         "MPI_Allreduce");
}

void cost_group(struct bench *bench, struct group *group) {
    for (int i = 0; i < group->ncandidates; i++) {
        struct candidate *candidate = &group->candidates[i];
        double seconds = candidate->first_call;

        if (!candidate->applicable || !candidate->verified) {
            continue;
        }
        watchdog_step(candidate->text);
        must(PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, bench->comm),
             "MPI_Allreduce");
        measure_memory(bench, candidate);
        measure_processor_time(bench, candidate, seconds > long_call ? LONG_CALLS : SHORT_CALLS);
        settle_candidate(bench, candidate);
    }
    watchdog_stop();
}
