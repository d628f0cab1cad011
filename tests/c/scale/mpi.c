#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"

#define must(holds)                                                                                \
    ((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds), abort()))

struct counts counts;
int gather_halves = 0;
static int world_size;
static bool initialized, finalized;

/* ---- communicators --------------------------------------------------------------------------- */

enum { MOST = 64, MOST_KEYVALS = 8, FIRST_COMM = 0x04000000, KEYVAL = 0x24000100 };

struct members {
    int size, first, step; /* in MPI_COMM_WORLD */
};

struct attribute {
    bool set;
    void *value;
};

static struct comm {
    bool used;
    struct members members;
    int splits;
    char name[MPI_MAX_OBJECT_NAME];
    struct attribute attributes[MOST_KEYVALS];
} comms[MOST]; /* the first two are MPI_COMM_WORLD and MPI_COMM_SELF */

static struct keyval {
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *delete;
} keyvals[MOST_KEYVALS];
static int nkeyvals;

static struct comm *find(MPI_Comm handle) {
    const int at = handle == MPI_COMM_WORLD  ? 0
                   : handle == MPI_COMM_SELF ? 1
                                             : (int)handle - FIRST_COMM;
    must(at >= 0 && at < MOST && comms[at].used);
    return &comms[at];
}

static MPI_Comm new_comm(struct members members) {
    int at = 2;
    while (at < MOST && comms[at].used)
        at++;
    must(at < MOST);
    memset(&comms[at], 0, sizeof comms[at]);
    comms[at].used = true;
    comms[at].members = members;
    return (MPI_Comm)(FIRST_COMM + at);
}

MPI_Comm make_comm(int size, int first, int step) {
    return new_comm((struct members){size, first, step});
}

void pretend(int ranks) {
    world_size = ranks;
    comms[0].used = comms[1].used = true;
    comms[0].members = (struct members){ranks, 0, 1};
    comms[1].members = (struct members){1, 0, 1};
}

static void delete_attribute(MPI_Comm handle, int keyval) {
    struct attribute *attribute = &find(handle)->attributes[keyval];
    must(attribute->set);
    must(keyvals[keyval].delete(handle, KEYVAL + keyval, attribute->value, NULL) == MPI_SUCCESS);
    attribute->set = false;
}

int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
    *out = new_comm(find(comm)->members);
    for (int k = 0; k < nkeyvals; k++) {
        const struct attribute *old = &find(comm)->attributes[k];
        struct attribute *new = &find(*out)->attributes[k];
        int flag = 0;
        if (old->set && keyvals[k].copy != NULL)
            must(keyvals[k].copy(comm, KEYVAL + k, NULL, old->value, &new->value, &flag) ==
                 MPI_SUCCESS);
        new->set = flag;
    }
    return MPI_SUCCESS;
}

int PMPI_Comm_free(MPI_Comm *comm) {
    for (int k = nkeyvals - 1; k >= 0; k--)
        if (find(*comm)->attributes[k].set)
            delete_attribute(*comm, k);
    find(*comm)->used = false;
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int PMPI_Comm_disconnect(MPI_Comm *comm) {
    return PMPI_Comm_free(comm);
}

int PMPI_Comm_rank(MPI_Comm comm, int *rank) {
    *rank = find(comm)->used ? 0 : -1;
    return MPI_SUCCESS;
}

int PMPI_Comm_size(MPI_Comm comm, int *size) {
    *size = find(comm)->members.size;
    return MPI_SUCCESS;
}

int PMPI_Comm_test_inter(MPI_Comm comm, int *flag) {
    *flag = !find(comm)->used;
    return MPI_SUCCESS;
}

int PMPI_Comm_get_name(MPI_Comm comm, char *name, int *length) {
    strcpy(name, find(comm)->name);
    *length = (int)strlen(name);
    return MPI_SUCCESS;
}

int PMPI_Comm_set_name(MPI_Comm comm, const char *name) {
    must(strlen(name) < MPI_MAX_OBJECT_NAME);
    strcpy(find(comm)->name, name);
    return MPI_SUCCESS;
}

int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *handler) {
    (void)function;
    *handler = MPI_ERRORS_ARE_FATAL;
    return MPI_SUCCESS;
}

int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler) {
    (void)find(comm);
    *handler = MPI_ERRORS_RETURN;
    return MPI_SUCCESS;
}

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
    (void)find(comm);
    (void)handler;
    return MPI_SUCCESS;
}

int PMPI_Errhandler_free(MPI_Errhandler *handler) {
    *handler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
}

/* ---- attributes ------------------------------------------------------------------------------ */

int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy,
                            MPI_Comm_delete_attr_function *delete, int *keyval, void *extra) {
    must(nkeyvals < MOST_KEYVALS && extra == NULL);
    keyvals[nkeyvals] = (struct keyval){copy, delete};
    *keyval = KEYVAL + nkeyvals++;
    return MPI_SUCCESS;
}

/* Attributes that it is on stay, as MPI has it. */
int PMPI_Comm_free_keyval(int *keyval) {
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

int PMPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag) {
    const struct attribute *attribute = &find(comm)->attributes[keyval - KEYVAL];
    *flag = attribute->set;
    if (*flag)
        memcpy(value, &attribute->value, sizeof attribute->value);
    return MPI_SUCCESS;
}

int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value) {
    struct attribute *attribute = &find(comm)->attributes[keyval - KEYVAL];
    if (attribute->set)
        delete_attribute(comm, keyval - KEYVAL);
    *attribute = (struct attribute){true, value};
    return MPI_SUCCESS;
}

int PMPI_Comm_delete_attr(MPI_Comm comm, int keyval) {
    delete_attribute(comm, keyval - KEYVAL);
    return MPI_SUCCESS;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct {
    bool used;
    struct members members;
} groups[MOST];

static struct members *members_of(MPI_Group group) {
    must(group >= FIRST_COMM && group < FIRST_COMM + MOST && groups[group - FIRST_COMM].used);
    return &groups[group - FIRST_COMM].members;
}

static MPI_Group new_group(struct members members) {
    int at = 0;
    while (at < MOST && groups[at].used)
        at++;
    must(at < MOST);
    groups[at].used = true;
    groups[at].members = members;
    return (MPI_Group)(FIRST_COMM + at);
}

int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group) {
    *group = new_group(find(comm)->members);
    return MPI_SUCCESS;
}

int PMPI_Group_incl(MPI_Group group, int n, const int *ranks, MPI_Group *out) {
    must(n > 0 && members_of(group)->step == 1);
    for (int i = 0; i < n; i++)
        must(ranks[i] == ranks[0] + i);
    *out = new_group((struct members){n, members_of(group)->first + ranks[0], 1});
    return MPI_SUCCESS;
}

int PMPI_Group_free(MPI_Group *group) {
    (void)members_of(*group);
    groups[*group - FIRST_COMM].used = false;
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

int PMPI_Group_translate_ranks(MPI_Group from, int n, const int *ranks, MPI_Group to, int *out) {
    const struct members *old = members_of(from);
    const struct members *new = members_of(to);
    for (int i = 0; i < n; i++) {
        const int distance = old->first + old->step * ranks[i] - new->first;
        const int at = distance / new->step;
        const bool there = distance % new->step == 0 && at >= 0 && at < new->size;
        out[i] = there ? at : MPI_UNDEFINED;
        counts.compared += there ? at + 1 : new->size;
    }
    return MPI_SUCCESS;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static int steps_of(int size) {
    int steps = 0;
    while (steps < 30 && 1 << steps < size)
        steps++;
    return steps;
}

static void count(MPI_Comm comm, long long bytes) {
    counts.collectives++;
    counts.steps += steps_of(find(comm)->members.size);
    counts.bytes += bytes;
}

static int bytes_of(MPI_Datatype type) {
    int size = 0;
    must(PMPI_Type_size(type, &size) == MPI_SUCCESS);
    return size;
}

int PMPI_Bcast(void *buffer, int n, MPI_Datatype type, int root, MPI_Comm comm) {
    must(root == 0 && buffer != NULL);
    if (find(comm)->members.size > 1)
        count(comm, (long long)n * bytes_of(type));
    return MPI_SUCCESS;
}

int PMPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
    count(comm, 0);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
    (void)status;
    *done = *request == MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

double PMPI_Wtime(void) {
    return 0;
}

int PMPI_Abort(MPI_Comm comm, int code) {
    (void)comm;
    exit(code);
}

/* No launcher has a store for notices of this process. */
int PMPI_Send(const void *buffer, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    (void)buffer, (void)n, (void)type, (void)to, (void)tag, (void)comm;
    abort();
}

int PMPI_Irecv(void *buffer, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
               MPI_Request *request) {
    (void)buffer, (void)n, (void)type, (void)from, (void)tag, (void)comm, (void)request;
    abort();
}

/* The runtime's own ask for the minimum; those of the program and of the variants' runs do not. */
int PMPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    const int size = find(comm)->members.size;
    const size_t bytes = (size_t)n * (size_t)bytes_of(type);
    if (op == MPI_MIN)
        count(comm, (long long)bytes * steps_of(size));
    if (in != MPI_IN_PLACE)
        memcpy(out, in, bytes);
    for (int i = 0; op == MPI_SUM && type == MPI_INT && i < n; i++)
        ((int *)out)[i] *= size;
    return MPI_SUCCESS;
}

int PMPI_Allgather(const void *in, int nin, MPI_Datatype intype, void *out, int nout,
                   MPI_Datatype outtype, MPI_Comm comm) {
    const struct members *members = &find(comm)->members;
    must(in != NULL && nin == 1 && nout == 1 && intype == MPI_INT && outtype == MPI_INT);
    count(comm, (long long)(members->size - 1) * bytes_of(intype));
    for (int i = 0; i < members->size; i++) {
        const int rank = members->first + members->step * i;
        const int on_node = rank % RANKS_PER_NODE;
        ((int *)out)[i] = gather_halves ? 2 * on_node / RANKS_PER_NODE : rank - on_node;
    }
    return MPI_SUCCESS;
}

static MPI_Comm split(MPI_Comm comm, int size, int step) {
    count(comm, 2 * (long long)sizeof(int) * (find(comm)->members.size - 1));
    return new_comm((struct members){size, 0, step});
}

int PMPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out) {
    must(type == MPI_COMM_TYPE_SHARED && key == 0 && info == MPI_INFO_NULL);
    *out = split(comm, RANKS_PER_NODE, 1);
    return MPI_SUCCESS;
}

/* In the order of runtime/src/place/connect.c: by node, by lane. */
int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out) {
    struct comm *found = find(comm);
    must(color == 0 && key == 0 && found->splits < 2);
    *out = found->splits++ == 0 ? split(comm, RANKS_PER_NODE, 1)
                                : split(comm, found->members.size / RANKS_PER_NODE, RANKS_PER_NODE);
    counts.made++;
    return MPI_SUCCESS;
}

/* ---- datatypes ------------------------------------------------------------------------------- */

/* MPICH has the size in the handle of a basic type. Those that consist of two have none; nobody
 * uses one here. */
int PMPI_Type_size(MPI_Datatype type, int *size) {
    *size = ((int)type & 0xff00) >> 8;
    return MPI_SUCCESS;
}

int PMPI_Type_get_extent(MPI_Datatype type, MPI_Aint *lb, MPI_Aint *extent) {
    *lb = 0;
    *extent = bytes_of(type);
    return MPI_SUCCESS;
}

int PMPI_Type_create_keyval(MPI_Type_copy_attr_function *copy,
                            MPI_Type_delete_attr_function *delete, int *keyval, void *extra) {
    must(copy == MPI_TYPE_NULL_COPY_FN && delete != NULL && extra == NULL);
    *keyval = KEYVAL;
    return MPI_SUCCESS;
}

int PMPI_Type_free_keyval(int *keyval) {
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

/* ---- begin and end --------------------------------------------------------------------------- */

int PMPI_Init(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    must(world_size > 0);
    initialized = true;
    return MPI_SUCCESS;
}

int PMPI_Finalize(void) {
    for (int c = 0; c < MOST; c++)
        for (int k = 0; comms[c].used && k < nkeyvals; k++)
            if (comms[c].attributes[k].set)
                delete_attribute(c == 0   ? MPI_COMM_WORLD
                                 : c == 1 ? MPI_COMM_SELF
                                          : (MPI_Comm)(FIRST_COMM + c),
                                 k);
    finalized = true;
    return MPI_SUCCESS;
}

int PMPI_Initialized(int *flag) {
    *flag = initialized;
    return MPI_SUCCESS;
}

int PMPI_Finalized(int *flag) {
    *flag = finalized;
    return MPI_SUCCESS;
}

int PMPI_Query_thread(int *level) {
    *level = MPI_THREAD_SINGLE;
    return MPI_SUCCESS;
}

int PMPI_Is_thread_main(int *flag) {
    *flag = 1;
    return MPI_SUCCESS;
}

int PMPI_Get_library_version(char *version, int *length) {
    strcpy(version, "MPICH that pretends");
    *length = (int)strlen(version);
    return MPI_SUCCESS;
}
