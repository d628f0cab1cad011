/*
 * Illegal arguments. What an error is called, and how often the user's handler hears of it, is for
 * each MPI library to say: this prints one line a case, and a run natively is compared with one
 * under the preload. A case is announced first, so that one that ends the program is known by name.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3, NAME_SIZE = 96 };

/* An illegal call: what makes it so, and where that is significant on all ranks. */
struct fault {
    const char *name;
    bool (*possible)(const struct collective *collective);
    void (*commit)(struct cf_args *arguments, int *counts, int size);
};

static MPI_Datatype uncommitted = MPI_DATATYPE_NULL;
static MPI_Datatype derived = MPI_DATATYPE_NULL;
static int handled = 0;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    handled++;
}

/* ---- where a fault makes sense -------------------------------------------------------------- */

static bool sends(const struct collective *c) {
    return !c->single_type && !c->moves_nothing && c->in_blocks(0, 1, 2) > 0 &&
           c->in_blocks(1, 1, 2) > 0;
}

static bool receives(const struct collective *c) {
    return !c->single_type && !c->moves_nothing && c->out_blocks(0, 1, 2) > 0 &&
           c->out_blocks(1, 1, 2) > 0;
}

/* The root alone can see the fault; the others have sent their little and are done. */
static bool gathers(const struct collective *c) {
    return c->rooted && !c->single_type && c->in_blocks(0, 1, 2) > 0 && c->out_blocks(0, 1, 2) == 0;
}

static bool single_type(const struct collective *c) {
    return c->single_type;
}

static bool rooted(const struct collective *c) {
    return c->rooted;
}

static bool reduces(const struct collective *c) {
    return c->reduces;
}

/* Elsewhere only some ranks' buffers would overlap. */
static bool aliasable(const struct collective *c) {
    return c->reduces && !c->rooted;
}

static bool always(const struct collective *c) {
    (void)c;
    return true;
}

/* ---- faults --------------------------------------------------------------------------------- */

static void negative_send(struct cf_args *a, int *counts, int size) {
    a->sendcount = -1;
    counts[size / 2] = -1;
    a->sendcounts = counts;
}

static void negative_recv(struct cf_args *a, int *counts, int size) {
    a->recvcount = -1;
    counts[size / 2] = -1;
    a->recvcounts = counts;
}

static void null_send_type(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->sendtype = MPI_DATATYPE_NULL;
}

static void null_recv_type(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->recvtype = MPI_DATATYPE_NULL;
}

static void uncommitted_send_type(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->sendtype = uncommitted;
}

static void uncommitted_recv_type(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->recvtype = uncommitted;
}

static void negative_root(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->root = -9;
}

static void large_root(struct cf_args *a, int *counts, int size) {
    (void)counts;
    a->root = size;
}

static void null_op(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->op = MPI_OP_NULL;
}

static void op_on_derived_type(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->recvtype = derived;
}

static void op_on_other_type(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->op = MPI_MAXLOC;
}

static void alias(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->sendbuf = a->recvbuf;
}

static void null_comm(struct cf_args *a, int *counts, int size) {
    (void)counts;
    (void)size;
    a->comm = MPI_COMM_NULL;
}

static const struct fault faults[] = {
    {"negative_send_count", sends, negative_send},
    {"negative_recv_count", receives, negative_recv},
    {"negative_count", single_type, negative_recv},
    {"null_send_type", sends, null_send_type},
    {"null_recv_type", receives, null_recv_type},
    {"null_type", single_type, null_recv_type},
    {"uncommitted_send_type", sends, uncommitted_send_type},
    {"uncommitted_recv_type", receives, uncommitted_recv_type},
    {"uncommitted_type", single_type, uncommitted_recv_type},
    {"negative_count_at_root", gathers, negative_recv},
    {"null_type_at_root", gathers, null_recv_type},
    {"negative_root", rooted, negative_root},
    {"large_root", rooted, large_root},
    {"null_op", reduces, null_op},
    {"op_on_derived_type", reduces, op_on_derived_type},
    {"op_on_other_type", reduces, op_on_other_type},
    {"alias", aliasable, alias},
    {"null_comm", always, null_comm},
};
enum { NFAULTS = sizeof faults / sizeof *faults };

/* ---- one case ------------------------------------------------------------------------------- */

static bool is_skipped(const char *name) {
    char listed[NAME_SIZE + 2];
    (void)snprintf(listed, sizeof listed, ",%s,", name);
    return strstr(program.skip, listed) != NULL;
}

/* What each rank got, in one line by rank 0. */
static void report(const char *name, int err) {
    int mine[2] = {-1, handled};
    int *all = xmalloc(2 * (size_t)program.size * sizeof *all);
    must(MPI_Error_class(err, &mine[0]) == MPI_SUCCESS);
    must(PMPI_Gather(mine, 2, MPI_INT, all, 2, MPI_INT, 0, program.control) == MPI_SUCCESS);
    if (program.rank == 0) {
        (void)printf("error %s", name);
        for (int r = 0; r < program.size; r++)
            (void)printf(" %d/%d", all[2 * r], all[2 * r + 1]);
        (void)printf("\n");
        (void)fflush(stdout);
    }
    free(all);
}

static void set_handler(MPI_Comm comm, MPI_Errhandler handler) {
    must(MPI_Comm_set_errhandler(comm, handler) == MPI_SUCCESS);
    /* Who hears of errors without a communicator differs between versions of the standard. */
    must(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler) == MPI_SUCCESS);
    must(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler) == MPI_SUCCESS);
}

static void try(const char *name, const struct collective *collective, const struct fault *fault,
                MPI_Errhandler handler) {
    const int size = program.world.size;
    int *counts = xmalloc((size_t)size * sizeof *counts);
    MPI_Comm comm = MPI_COMM_NULL;
    struct plain plain;

    must(PMPI_Comm_dup(program.world.comm, &comm) == MPI_SUCCESS);
    set_handler(comm, handler);
    plain_create(&plain, COUNT, 4 * size);
    plain_fill(&plain, program.seed);
    for (int r = 0; r < size; r++)
        counts[r] = COUNT;
    struct cf_args arguments = plain_arguments(&plain, comm, 0);
    fault->commit(&arguments, counts, size);
    handled = 0;
    report(name, collective->call(&arguments));
    atomic_fetch_add(&program_calls, 1);
    must(PMPI_Comm_free(&comm) == MPI_SUCCESS);
    plain_free(&plain);
    free(counts);
}

static void commit(const struct collective *collective, const struct fault *fault,
                   MPI_Errhandler own) {
    for (int i = 0; i < 2; i++) {
        char name[NAME_SIZE];
        (void)snprintf(name, sizeof name, "%s.%s.%s", collective->name, fault->name,
                       i == 0 ? "return" : "handler");
        if (is_skipped(name))
            continue;
        watch(NULL, name);
        if (program.rank == 0)
            (void)printf("try %s\n", name);
        (void)fflush(stdout);
        must(PMPI_Barrier(program.control) == MPI_SUCCESS);
        try(name, collective, fault, i == 0 ? MPI_ERRORS_RETURN : own);
    }
}

void check_errors(void) {
    MPI_Errhandler own = MPI_ERRHANDLER_NULL;
    must(MPI_Comm_create_errhandler(handle, &own) == MPI_SUCCESS);
    must(MPI_Type_contiguous(3, MPI_INT, &uncommitted) == MPI_SUCCESS);
    must(MPI_Type_vector(2, 1, 2, MPI_INT, &derived) == MPI_SUCCESS);
    must(MPI_Type_commit(&derived) == MPI_SUCCESS);
    for (int c = 0; c < ncollectives; c++) {
        for (int f = 0; f < NFAULTS && collective_wanted(&collectives[c]); f++) {
            if (faults[f].possible(&collectives[c]))
                commit(&collectives[c], &faults[f], own);
        }
    }
    must(MPI_Errhandler_free(&own) == MPI_SUCCESS);
    must(MPI_Type_free(&uncommitted) == MPI_SUCCESS);
    must(MPI_Type_free(&derived) == MPI_SUCCESS);
}
