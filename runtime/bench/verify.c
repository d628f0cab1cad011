#include <limits.h>

#include "bench.h"
#include "report.h"

int call_candidate(struct bench *bench, const struct candidate *candidate) {
    const struct cf_variant *variant = candidate->choice.variant;

    if (variant == NULL)
        return cf_collectives[bench->data.problem->collective].native(&bench->data.args);
    return variant->run(&bench->data.args, bench->world, candidate->choice.parameter);
}

/* As the wrappers decide it (cf_run). */
static bool is_applicable(const struct bench *bench, const struct problem *problem,
                          const struct cf_choice *choice) {
    struct cf_facts facts;

    if (choice->variant == NULL)
        return true;
    cf_facts_fill(&facts, &bench->world->layout, problem->collective, problem->bytes,
                  types_op_handle(problem->op));
    return facts.total_bytes <= INT_MAX && choice->variant->applicable(&facts);
}

void check_candidate(struct bench *bench, struct candidate *candidate, int err) {
    if (candidate->verified)
        candidate->verified =
            data_check(&bench->data, err, bench->rank, candidate->detail, sizeof candidate->detail);
}

void settle_candidate(struct bench *bench, struct candidate *candidate) {
    const int mine = candidate->verified ? bench->size : bench->rank;
    int first = bench->size;

    must(PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, bench->comm), "MPI_Allreduce");
    if (first == bench->size)
        return;
    candidate->verified = false;
    must(PMPI_Bcast(candidate->detail, DETAIL_SIZE, MPI_CHAR, first, bench->comm), "MPI_Bcast");
}

void verify_group(struct bench *bench, struct group *group) {
    watchdog_step(group->text);
    bench->group_start = clock_local(&bench->clock);
    data_prepare(&bench->data, &group->problem, bench->rank, bench->size);
    for (int i = 0; i < group->ncandidates; i++) {
        struct candidate *candidate = &group->candidates[i];

        candidate->applicable = is_applicable(bench, &group->problem, &candidate->choice);
        if (!candidate->applicable)
            continue;
        watchdog_step(candidate->text);
        candidate->verified = true;
        data_reset(&bench->data);
        const double start = clock_local(&bench->clock);
        const int err = call_candidate(bench, candidate);
        candidate->first_call = clock_local(&bench->clock) - start;
        check_candidate(bench, candidate, err);
        settle_candidate(bench, candidate);
    }
    watchdog_stop();
}
