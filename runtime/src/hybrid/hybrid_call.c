/* The collectives of collforge_hybrid.h: from a call to the variant that runs it. */
#include "hybrid/hybrid.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle_table.h"
#include "base/runtime.h"
#include "data/sizes.h"
#include "data/variant.h"
#include "winners/rules.h"

/* The first variant of a collective with the first value of each parameter. */
static void choose_default(int collective, struct cf_choice *choice) {
    char why[64] = "";

    for (int v = 0; v < cf_nvariants && choice->variant == NULL; v++) {
        if (cf_variants[v]->collective == collective) {
            const char *family = cf_variants[v]->family;
            (void)cf_choice_parse(family, strlen(family), collective, choice, why, sizeof why);
        }
    }
}

bool cf_hybrid_prepare(struct cf_hybrid *hybrid, bool of_world) {
    char name[CF_LAYOUT_NAME_SIZE] = "";

    hybrid->defaults = calloc((size_t)cf_ncollectives, sizeof *hybrid->defaults);
    hybrid->last = calloc((size_t)cf_ncollectives, sizeof *hybrid->last);
    if (hybrid->defaults == NULL || hybrid->last == NULL) {
        return false;
    }
    for (int collective = 0; collective < cf_ncollectives; collective++) {
        if (cf_collectives[collective].hybrid) {
            choose_default(collective, &hybrid->defaults[collective]);
        }
    }
    cf_layout_name_with(&hybrid->comm.layout, 1, name, sizeof name);
    /* Another world may have other winners. */
    hybrid->rules = !of_world || cf_runtime.mode < CF_MODE_ON
                        ? NULL
                        : cf_rules_find(name, hybrid->comm.layout.threads);
    return true;
}

/* The bytes by which a choice is made; the sum of all blocks where they differ goes to total.
 * Negative: a count is, or a sum is beyond what variants count. */
static int64_t bytes_of(const struct cf_args *args, int size, int64_t type_size, int64_t *total) {
    int64_t sum = 0;

    if (args->recvcounts == NULL) {
        *total = -1;
        return args->recvcount < 0 ? -1 : args->recvcount * type_size;
    }
    for (int rank = 0; rank < size; rank++) {
        if (args->recvcounts[rank] < 0) {
            return -1;
        }
        sum += args->recvcounts[rank];
    }
    *total = sum * type_size;
    return (*total + size - 1) / size;
}

/* What is illegal in the same way on all ranks, where they give the same arguments as they have to.
 */
static int check(const struct cf_hybrid *hybrid, int collective, const struct cf_args *args,
                 struct cf_facts *facts) {
    const struct cf_collective_info *info = &cf_collectives[collective];
    const struct cf_layout *layout = &hybrid->comm.layout;
    struct cf_unit unit;
    int64_t total = 0;

    if (args->recvtype == MPI_DATATYPE_NULL || cf_type_size(args->recvtype) < 0) {
        return MPI_ERR_TYPE;
    }
    CF_TRY(cf_unit_of(args->recvtype, &unit));
    if (!unit.dense) {
        return MPI_ERR_TYPE;
    }
    if (info->has_op && args->op == MPI_OP_NULL) {
        return MPI_ERR_OP;
    }
    if (info->rooted && (args->root < 0 || args->root >= layout->size)) {
        return MPI_ERR_ROOT;
    }
    const int64_t bytes = bytes_of(args, layout->size, unit.size, &total);
    if (bytes < 0) {
        return MPI_ERR_COUNT;
    }
    cf_facts_fill(facts, layout, collective, bytes, args->op);
    total = total < 0 ? facts->total_bytes : total;
    if (facts->total_bytes > INT_MAX || total > INT_MAX) {
        return MPI_ERR_COUNT;
    }
    return cf_piece_has(hybrid, args->recvbuf, (size_t)total) ? MPI_SUCCESS : MPI_ERR_BUFFER;
}

/* Whether a choice serves the call: on all ranks alike. */
static int serves(struct cf_comm *comm, const struct cf_choice *choice,
                  const struct cf_facts *facts, bool *yes) {
    *yes = choice->variant->applicable(facts);
    return *yes ? cf_prepare(choice->variant, comm, choice->parameter, yes) : MPI_SUCCESS;
}

/* The choice for a call that is legal; NULL where it moves nothing. */
static int choose(struct cf_hybrid *hybrid, int collective, const struct cf_args *args,
                  const struct cf_choice **choice) {
    const struct cf_rules *rules = hybrid->rules;
    struct cf_facts facts;

    CF_TRY(check(hybrid, collective, args, &facts));
    if (facts.bytes == 0) {
        *choice = NULL;
        return MPI_SUCCESS;
    }
    if (*choice == NULL && rules != NULL) {
        *choice = rules->by_size[collective * CF_BUCKETS + cf_bucket((uint64_t)facts.bytes)];
    }
    bool served = false;
    if (*choice != NULL) {
        CF_TRY(serves(&hybrid->comm, *choice, &facts, &served));
    }
    if (!served) {
        *choice = &hybrid->defaults[collective];
    }
    return MPI_SUCCESS;
}

/* Without data the ranks of a node still wait for each other, as the header promises. */
static int run(struct cf_hybrid *hybrid, const struct cf_choice *choice,
               const struct cf_args *args) {
    return choice == NULL ? cf_hybrid_sync(hybrid)
                          : choice->variant->run(args, &hybrid->comm, choice->parameter);
}

static bool is_last(const struct cf_hybrid_last *last, const struct cf_choice *asked,
                    const struct cf_args *args) {
    return last->chosen != NULL && last->asked == asked && last->recvbuf == args->recvbuf &&
           last->recvcount == args->recvcount && last->root == args->root &&
           last->type == args->recvtype && last->op == args->op && args->recvcounts == NULL;
}

/* The op is 0 in a collective that has none. */
static void remember(struct cf_hybrid_last *last, const struct cf_choice *asked,
                     const struct cf_choice *chosen, const struct cf_args *args) {
    const bool good = args->op == (MPI_Op)0 || cf_op_is_predefined(args->op);

    last->chosen = good && cf_type_is_predefined(args->recvtype) ? chosen : NULL;
    last->asked = asked;
    last->recvbuf = args->recvbuf;
    last->recvcount = args->recvcount;
    last->root = args->root;
    last->type = args->recvtype;
    last->op = args->op;
}

int cf_hybrid_attempt(struct cf_hybrid *hybrid, const struct cf_choice *choice, int collective,
                      const struct cf_args *args) {
    struct cf_hybrid_last *last = &hybrid->last[collective];
    const struct cf_choice *asked = choice;

    if (last->released == hybrid->released && is_last(last, asked, args)) {
        choice = last->chosen;
    } else {
        CF_TRY(choose(hybrid, collective, args, &choice));
        remember(last, asked, choice, args);
        last->released = hybrid->released;
    }
    return run(hybrid, choice, args);
}

int cf_hybrid_call(struct collforge_hybrid *hybrid, int collective, struct cf_args *args) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);

    if (found == NULL) {
        return cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM);
    }
    args->comm = hybrid->comm;
    return cf_hybrid_fail(hybrid->comm, cf_hybrid_attempt(found, NULL, collective, args));
}

/* ---- persistent forms ------------------------------------------------------------------------ */

struct collforge_hybrid_request {
    struct collforge_hybrid *hybrid;
    const struct cf_choice *choice;
    struct cf_args args;
    bool owns_type; /* recvtype is a duplicate: the program may free its own */
    int counts[];   /* the request's own, where blocks differ */
};

/* The requests that are not freed: a handle may be a copy of one that was. */
static struct cf_handle_table live = CF_HANDLE_TABLE_INITIALIZER;

static void free_request(struct collforge_hybrid_request *request) {
    if (request->owns_type) {
        (void)PMPI_Type_free(&request->args.recvtype);
    }
    free(request);
}

/* NULL when memory is out. */
static struct collforge_hybrid_request *new_request(const struct cf_args *args, int size) {
    const size_t bytes = args->recvcounts == NULL ? 0 : (size_t)size * sizeof(int);
    struct collforge_hybrid_request *request = malloc(sizeof *request + bytes);

    if (request == NULL) {
        return NULL;
    }
    *request = (struct collforge_hybrid_request){.args = *args};
    if (bytes > 0) {
        memcpy(request->counts, args->recvcounts, bytes);
        request->args.recvcounts = request->counts;
    }
    /* Predefined ops are for predefined types, not for duplicates of them. */
    request->owns_type = !cf_type_is_predefined(args->recvtype);
    if (request->owns_type &&
        PMPI_Type_dup(args->recvtype, &request->args.recvtype) != MPI_SUCCESS) {
        free(request);
        return NULL;
    }
    return request;
}

int cf_hybrid_init(struct collforge_hybrid *hybrid, int collective, const struct cf_args *args,
                   struct collforge_hybrid_request **request) {
    struct cf_hybrid *found = cf_hybrid_find(hybrid);
    const struct cf_choice *choice = NULL;

    *request = NULL;
    if (found == NULL) {
        return cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_COMM);
    }
    const int err = choose(found, collective, args, &choice);
    if (err != MPI_SUCCESS) {
        return cf_hybrid_fail(hybrid->comm, err);
    }
    struct collforge_hybrid_request *made = new_request(args, hybrid->size);
    if (made != NULL && !cf_handle_insert(&live, (uintptr_t)made, (uintptr_t)made)) {
        free_request(made);
        made = NULL;
    }
    if (made == NULL) {
        return cf_hybrid_fail(hybrid->comm, MPI_ERR_NO_MEM);
    }
    made->hybrid = hybrid;
    made->args.comm = hybrid->comm;
    made->choice = choice;
    *request = made;
    return MPI_SUCCESS;
}

static bool is_live(struct collforge_hybrid_request *request) {
    uintptr_t found = 0;

    return cf_handle_find(&live, (uintptr_t)request, &found);
}

int collforge_hybrid_start(struct collforge_hybrid_request *request) {
    struct cf_hybrid *found = is_live(request) ? cf_hybrid_find(request->hybrid) : NULL;

    if (found == NULL) {
        return cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_REQUEST);
    }
    return cf_hybrid_fail(found->open.comm, run(found, request->choice, &request->args));
}

int collforge_hybrid_request_free(struct collforge_hybrid_request **request) {
    if (!is_live(*request)) {
        return cf_hybrid_fail(MPI_COMM_NULL, MPI_ERR_REQUEST);
    }
    cf_handle_remove(&live, (uintptr_t)*request);
    free_request(*request);
    *request = NULL;
    return MPI_SUCCESS;
}
