#define _GNU_SOURCE /* dladdr */
#include "serve/check_ops.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/log.h"
#include "base/runtime.h"
#include "data/facts.h"
#include "data/sizes.h"
#include "device/gpu.h"

enum { MOST = 256 };

static struct {
    pthread_mutex_t mutex;
    struct {
        MPI_Op op;
        MPI_User_function *function;
        bool checked;
    } ops[MOST];
    int count;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int find(MPI_Op op) {
    int i = 0;
    while (i < known.count && known.ops[i].op != op) {
        i++;
    }
    return i;
}

/* An op that is created has maybe the handle of one that was freed. */
COLLFORGE_PUBLIC int MPI_Op_create(MPI_User_function *function, int commutes, MPI_Op *op) {
    static int (*next)(MPI_User_function *, int, MPI_Op *) = PMPI_Op_create;
    cf_chain("MPI_Op_create", &next);
    const int err = next(function, commutes, op);
    if (err == MPI_SUCCESS && cf_runtime.check_ops) {
        (void)pthread_mutex_lock(&known.mutex);
        const int i = find(*op);
        if (i < MOST) {
            known.ops[i].op = *op;
            known.ops[i].function = function;
            known.ops[i].checked = false;
            known.count = i == known.count ? i + 1 : known.count;
        }
        (void)pthread_mutex_unlock(&known.mutex);
    }
    return err;
}

/* Whether the op is to be checked now; once for each. */
static bool begin(MPI_Op op, MPI_User_function **function) {
    (void)pthread_mutex_lock(&known.mutex);
    const int i = find(op);
    const bool now = i < MOST && (i == known.count || !known.ops[i].checked);
    if (i == known.count && now) {
        known.ops[i].op = op;
        known.ops[i].function = NULL;
        known.count++;
    }
    if (now) {
        known.ops[i].checked = true;
        *function = known.ops[i].function;
    }
    (void)pthread_mutex_unlock(&known.mutex);
    return now;
}

static void complain(int collective, MPI_User_function *function, int count) {
    Dl_info info = {0};
    void *address = NULL;
    char where[512] = "of unknown function";
    memcpy(&address, &function, sizeof address);
    if (function != NULL && dladdr(address, &info) != 0) {
        (void)snprintf(where, sizeof where, "%s (%s+0x%lx)",
                       info.dli_sname == NULL ? "" : info.dli_sname, info.dli_fname,
                       (unsigned long)((char *)address - (char *)info.dli_fbase));
    }
    cf_warn(
        "the op %s of %s, with %d elements, gives another result in two halves than in whole: do "
        "not set COLLFORGE_SPLIT_OPS",
        where, cf_collectives[collective].function, count);
}

/* A copy of the vector with as much room behind it, into which an op that needs the whole vector
 * would reach from its second half. NULL when out of memory. */
static char *copy(const char *from, size_t bytes) {
    char *made = calloc(2, bytes + 1);
    if (made != NULL) {
        memcpy(made, from, bytes);
    }
    return made;
}

/* Without what lies between the data of elements, which an op may leave or change. False if that
 * cannot be told. */
static bool data_differs(const void *one, const void *other, int count, MPI_Datatype type,
                         MPI_Comm comm) {
    int room = 0;
    int filled[2] = {0, 0};
    if (PMPI_Pack_size(count, type, comm, &room) != MPI_SUCCESS || room < 0) {
        return false;
    }
    char *packed = malloc(2 * (size_t)room + 1);
    const bool differ =
        packed != NULL &&
        PMPI_Pack(one, count, type, packed, room, &filled[0], comm) == MPI_SUCCESS &&
        PMPI_Pack(other, count, type, packed + room, room, &filled[1], comm) == MPI_SUCCESS &&
        memcmp(packed, packed + room, (size_t)filled[0]) != 0;
    free(packed);
    return differ;
}

/* Reduces the vector with rank 0's, in whole and in halves. Returns whether the results differ. An
 * op may store into its first operand, so each has its own. */
static bool differs(const char *in, int count, const struct cf_args *args) {
    enum { FIRST, OTHER_FIRST, WHOLE, HALVES, COPIES };
    const MPI_Datatype type = args->recvtype;
    MPI_Aint lb = 0;
    MPI_Aint extent = 0;
    MPI_Aint true_lb = 0;
    MPI_Aint true_extent = 0;
    (void)PMPI_Type_get_extent(type, &lb, &extent);
    (void)PMPI_Type_get_true_extent(type, &true_lb, &true_extent);
    bool known = extent >= 0 && true_extent > 0;
    const size_t bytes = known ? (size_t)(true_extent + (count - 1) * extent) : 0;
    const MPI_Aint second = count / 2 * extent;
    char *made[COPIES] = {NULL};
    char *at[COPIES] = {NULL};
    bool other = false;
    for (int i = 0; i < COPIES && known; i++) {
        made[i] = copy(in + true_lb, bytes);
        known = made[i] != NULL;
        at[i] = known ? made[i] - true_lb : NULL;
    }
    if (cf_comm_agree(args->comm, known) &&
        PMPI_Bcast(at[FIRST], count, type, 0, args->comm) == MPI_SUCCESS) {
        memcpy(made[OTHER_FIRST], made[FIRST], bytes);
        other = PMPI_Reduce_local(at[FIRST], at[WHOLE], count, type, args->op) == MPI_SUCCESS &&
                PMPI_Reduce_local(at[OTHER_FIRST], at[HALVES], count / 2, type, args->op) ==
                    MPI_SUCCESS &&
                PMPI_Reduce_local(at[OTHER_FIRST] + second, at[HALVES] + second, count - count / 2,
                                  type, args->op) == MPI_SUCCESS &&
                data_differs(at[WHOLE], at[HALVES], count, type, args->comm);
    }
    for (int i = 0; i < COPIES; i++) {
        free(made[i]);
    }
    return other;
}

/* The elements of a rank's contribution; 0 if they are too many, or not known. */
static int vector_length(int collective, const struct cf_args *args) {
    int size = 1;
    int64_t count = 0;
    if (PMPI_Comm_size(args->comm, &size) != MPI_SUCCESS) {
        return 0;
    }
    for (int i = 0; i < size && args->recvcounts != NULL; i++) {
        count += args->recvcounts[i];
    }
    if (args->recvcounts == NULL) {
        const bool in_blocks = cf_collectives[collective].total_is_size_blocks;
        count = (int64_t)args->recvcount * (in_blocks ? size : 1);
    }
    return count > 0 && count <= INT_MAX ? (int)count : 0;
}

/* Whether an op was checked is not known alike on all ranks: freed handles are used again. */
void cf_check_op(int collective, const struct cf_args *args) {
    MPI_User_function *function = NULL;
    const void *in = args->sendbuf == MPI_IN_PLACE ? args->recvbuf : args->sendbuf;
    const int count = vector_length(collective, args);
    if (cf_op_is_predefined(args->op) || count < 2) {
        return;
    }
    const bool may = in != MPI_IN_PLACE && !cf_gpu_may_be() && cf_type_size(args->recvtype) >= 0;
    const int mine[2] = {begin(args->op, &function), !may};
    int any[2] = {0, 0};
    if (PMPI_Allreduce(mine, any, 2, MPI_INT, MPI_MAX, args->comm) != MPI_SUCCESS || any[0] == 0 ||
        any[1] != 0) {
        return;
    }
    if (differs(in, count, args)) {
        complain(collective, function, count);
    }
}
