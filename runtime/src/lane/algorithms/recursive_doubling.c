/* Recursive doubling on a lane (specs/algorithms/recursive_doubling.toml); multiplying with a radix
 * above 2. */
#include "lane/lane.h"
#include "lane_algorithms.h"

static int radix_of(const struct cf_lane_call *call) {
    return cf_radix(call->parameter[CF_RECURSIVE_DOUBLING_RADIX]);
}

/* A group whose members exchange in one step: every `far`-th index from `first` on. */
struct group {
    int first;
    int far;
    int size;
    int own; /* of this rank, in the group */
    int rank[CF_MAX_RADIX];
};

static void group_among(struct group *group, const struct cf_butterfly *who, int far) {
    const int rest = who->active / far;

    group->far = far;
    group->size = rest < who->radix ? rest : who->radix;
    group->own = who->index / far % group->size;
    group->first = who->index - group->own * far;
    for (int i = 0; i < group->size; i++) {
        group->rank[i] = cf_active_rank(who, group->first + i * far);
    }
}

/* The blocks that a member with this index has: those of the ranks from cf_active_first of the
 * first of its `far` indices on. */
static struct cf_message blocks_of(const struct cf_lane_call *call, const struct cf_butterfly *who,
                                   int index, int far) {
    const int begin = index / far * far;
    const int first = cf_active_first(who, begin);
    return (struct cf_message){
        cf_at(call->unit, call->to, call->parts->displs[first]),
        cf_split_units(call->parts, first, cf_active_first(who, begin + far)),
        cf_active_rank(who, index)};
}

/* All members of a group send each other what they have. */
static int exchange_blocks(const struct cf_lane_call *call, const struct cf_butterfly *who,
                           const struct group *group) {
    struct cf_message out = blocks_of(call, who, who->index, group->far);
    struct cf_batch batch = {.n = 0};
    int err = MPI_SUCCESS;

    for (int i = 0; i < group->size && err == MPI_SUCCESS; i++) {
        if (i != group->own) {
            const struct cf_message in =
                blocks_of(call, who, group->first + i * group->far, group->far);
            out.rank = in.rank;
            err = cf_batch_add(&batch, out, in, call->unit, call->over.comm);
        }
    }
    return cf_batch_end(&batch, err);
}

/*
 * With 5 nodes, 0 first sends its part to 1. Then 1 (with 0 1) and 2 exchange, as do 3 and 4; then
 * 1 and 3, and 2 and 4. At last 1 sends all to 0. The parts that a rank has are always consecutive.
 */
int cf_recursive_doubling_allgather(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const struct cf_butterfly who = cf_butterfly_of(at->rank, at->size, radix_of(call));

    CF_TRY(cf_copy(call->comm, cf_at(unit, call->to, call->parts->displs[at->rank]), call->from,
                   call->parts->counts[at->rank], unit));
    if (who.index < 0) {
        CF_TRY(cf_send(cf_at(unit, call->to, call->parts->displs[at->rank]),
                       call->parts->counts[at->rank], unit, at->rank + 1, 0, at->comm));
        return cf_receive(call->to, call->parts->total, unit, at->rank + 1, 0, at->comm);
    }
    if (who.stands_for_two) {
        CF_TRY(cf_receive(cf_at(unit, call->to, call->parts->displs[at->rank - 1]),
                          call->parts->counts[at->rank - 1], unit, at->rank - 1, 0, at->comm));
    }
    for (int far = 1; far < who.active; far *= who.radix) {
        struct group group;
        group_among(&group, &who, far);
        CF_TRY(exchange_blocks(call, &who, &group));
    }
    if (who.stands_for_two) {
        return cf_send(call->to, call->parts->total, unit, at->rank - 1, 0, at->comm);
    }
    return MPI_SUCCESS;
}

/* The sums of this rank, and those that others send. */
struct sums {
    const struct cf_lane_call *call;
    void *own;
    void *spare[2]; /* the second is for groups of more than two */
    void *prefix;   /* of an exscan: the result; else NULL */
    bool has_prefix;
    MPI_Request receive[CF_MAX_RADIX];
    MPI_Request send[CF_MAX_RADIX];
};

/* Buffers for sums that come, and for this rank's own if it has none. */
static int make_room(struct sums *sums, int radix) {
    const struct cf_lane_call *call = sums->call;
    const int spares = radix > 2 ? 2 : 1;
    const int owns = sums->own == NULL;
    MPI_Aint apart = 0;
    char *room = cf_temps(call->comm, CF_SLOT_LANE, spares + owns, call->count, call->unit, &apart);

    CF_TRY_MEMORY(room);
    sums->spare[0] = room;
    sums->spare[1] = spares > 1 ? room + apart : NULL;
    if (owns) {
        sums->own = room + spares * apart;
    }
    return MPI_SUCCESS;
}

/* Begins to receive the sum of member i, or of the next one if that is this rank. */
static int ask(struct sums *sums, const struct group *group, int i, void *to) {
    const struct cf_lane_call *call = sums->call;
    const int from = i == group->own ? i + 1 : i;

    return from >= group->size ? MPI_SUCCESS
                               : PMPI_Irecv(to, call->count, call->unit->type, group->rank[from], 0,
                                            call->over.comm, &sums->receive[from]);
}

static int send_own(struct sums *sums, const struct group *group) {
    const struct cf_lane_call *call = sums->call;

    for (int i = 0; i < group->size; i++) {
        if (i != group->own) {
            CF_TRY(PMPI_Isend(sums->own, call->count, call->unit->type, group->rank[i], 0,
                              call->over.comm, &sums->send[i]));
        }
    }
    return MPI_SUCCESS;
}

/* The sum of all members before this rank: on the left of the prefix. Then nothing may read this
 * rank's own sum any more. No deadlock: the members before reach this rank's sum without it, those
 * after it have only to receive from ranks up to it. */
static int take_before(struct sums *sums, const struct group *group, const void *before) {
    const struct cf_lane_call *call = sums->call;

    if (sums->prefix != NULL) {
        CF_TRY(sums->has_prefix
                   ? cf_combine(call->comm, before, sums->prefix, call->count, call->unit, call->op)
                   : cf_copy(call->comm, sums->prefix, before, call->count, call->unit));
        sums->has_prefix = true;
    }
    for (int i = 0; i < group->size; i++) {
        CF_TRY(cf_wait(&sums->send[i]));
    }
    return MPI_SUCCESS;
}

/* Combines the sums of all members in rank order, as they come; *all is where the result is. */
static int add_in_order(struct sums *sums, const struct group *group, void **all) {
    const struct cf_lane_call *call = sums->call;
    void *coming = sums->spare[0];

    *all = NULL;
    CF_TRY(ask(sums, group, 0, coming));
    CF_TRY(send_own(sums, group));
    for (int i = 0; i < group->size; i++) {
        void *next = i == group->own ? sums->own : coming;
        CF_TRY(cf_wait(&sums->receive[i]));
        if (*all != NULL) {
            CF_TRY(i == group->own ? take_before(sums, group, *all) : MPI_SUCCESS);
            CF_TRY(cf_combine(call->comm, *all, next, call->count, call->unit, call->op));
        }
        *all = next;
        if (i != group->own) {
            coming = next == sums->spare[0] ? sums->spare[1] : sums->spare[0];
            CF_TRY(ask(sums, group, i + 1, coming));
        }
    }
    return MPI_SUCCESS;
}

/* Replaces this rank's sum by that of its group. Every member combines the same sums in the same
 * order. */
static int exchange_sums(struct sums *sums, const struct group *group) {
    void *all = NULL;

    cf_requests_clear(sums->receive, group->size);
    cf_requests_clear(sums->send, group->size);
    CF_TRY(
        cf_requests_end(sums->receive, sums->send, group->size, add_in_order(sums, group, &all)));
    for (int i = 0; i < 2 && all != sums->own; i++) {
        if (all == sums->spare[i]) {
            sums->spare[i] = sums->own;
            sums->own = all;
        }
    }
    return MPI_SUCCESS;
}

/*
 * With 5 nodes, 0 first sends x0 to 1, which has x0 o x1. Then 1 and 2 compute (x0 o x1) o x2, 3
 * and 4 compute x3 o x4, and then 1 and 3, and 2 and 4, the whole. At last 1 sends it to 0. All put
 * lower ranks' partial results on the left, so all combine in rank order and get the same bits.
 */
int cf_recursive_doubling_allreduce(const struct cf_lane_call *call) {
    const struct cf_unit *unit = call->unit;
    const struct cf_over *at = &call->over;
    const struct cf_butterfly who = cf_butterfly_of(at->rank, at->size, radix_of(call));
    struct sums sums = {.call = call, .own = call->to};

    if (who.index < 0) {
        CF_TRY(cf_send(call->from, call->count, unit, at->rank + 1, 0, at->comm));
        return cf_receive(call->to, call->count, unit, at->rank + 1, 0, at->comm);
    }
    CF_TRY(make_room(&sums, who.radix));
    CF_TRY(cf_copy(call->comm, sums.own, call->from, call->count, unit));
    if (who.stands_for_two) {
        CF_TRY(cf_receive(sums.spare[0], call->count, unit, at->rank - 1, 0, at->comm));
        CF_TRY(cf_combine(call->comm, sums.spare[0], sums.own, call->count, unit, call->op));
    }
    for (int far = 1; far < who.active; far *= who.radix) {
        struct group group;
        group_among(&group, &who, far);
        CF_TRY(exchange_sums(&sums, &group));
    }
    CF_TRY(cf_copy(call->comm, call->to, sums.own, call->count, unit));
    if (who.stands_for_two) {
        return cf_send(call->to, call->count, unit, at->rank - 1, 0, at->comm);
    }
    return MPI_SUCCESS;
}

/* The group of consecutive blocks of `far` ranks; the last block and the last group may be
 * incomplete. */
static void group_of_rank(struct group *group, int rank, int n, int far, int radix) {
    group->far = far;
    group->own = rank / far % radix;
    group->first = rank - group->own * far;
    group->size = 0;
    for (int next = group->first; next < n && group->size < radix; next += far) {
        group->rank[group->size++] = next;
    }
}

/*
 * Groups of 1, 2, 4, ... ranks exchange their sums with the neighbouring group. Sums from lower
 * ranks are combined on the left of the result. With 5 nodes, 3 receives x2, then x0 o x1; 4
 * receives nothing twice, then x0 o .. o x3. An incomplete group is the last one, so no group needs
 * its sum. Rank 0 does not write its result.
 */
int cf_recursive_doubling_exscan(const struct cf_lane_call *call) {
    const struct cf_over *at = &call->over;
    const int radix = radix_of(call);
    struct sums sums = {.call = call, .prefix = call->to};

    CF_TRY(make_room(&sums, radix));
    CF_TRY(cf_copy(call->comm, sums.own, call->from, call->count, call->unit));
    for (int far = 1; far < at->size; far *= radix) {
        struct group group;
        group_of_rank(&group, at->rank, at->size, far, radix);
        CF_TRY(exchange_sums(&sums, &group));
    }
    return MPI_SUCCESS;
}
