#include "comm/shape.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct cf_shape *cf_shape_use(struct cf_shape *shape) {
    (void)atomic_fetch_add(&shape->users, 1);
    return shape;
}

void cf_shape_leave(struct cf_shape *shape, bool may_call) {
    if (atomic_fetch_sub(&shape->users, 1) > 1)
        return;
    if (shape->group != MPI_GROUP_NULL && may_call)
        (void)PMPI_Group_free(&shape->group);
    shape->layout.full = shape->full;
    shape->layout.single = shape->single;
    cf_layout_free(&shape->layout);
    free(shape);
}

/*
 * In Open MPI 4.1.4, MPI_Comm_create_group copies attributes too, although the new communicator may
 * have other ranks or another order. A true duplicate has the same group object as the original, so
 * group handles tell them apart.
 */
#if defined(OPEN_MPI)
static int remember_group(struct cf_shape *shape, MPI_Comm comm) {
    return PMPI_Comm_group(comm, &shape->group);
}

bool cf_shape_is_of(const struct cf_shape *shape, MPI_Comm comm) {
    MPI_Group group = MPI_GROUP_NULL;
    if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return false;
    const bool same = group == shape->group;
    (void)PMPI_Group_free(&group);
    return same;
}
#else
static int remember_group(struct cf_shape *shape, MPI_Comm comm) {
    (void)comm;
    shape->group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

bool cf_shape_is_of(const struct cf_shape *shape, MPI_Comm comm) {
    (void)shape;
    (void)comm;
    return true;
}
#endif

int cf_shape_make(MPI_Comm comm, struct cf_shape **out) {
    char name[CF_LAYOUT_NAME_SIZE];
    struct cf_layout layout;
    int err = cf_layout_build(&layout, comm);
    *out = NULL;
    if (err != MPI_SUCCESS || layout.size == 0)
        return err;
    struct cf_shape *shape = calloc(1, sizeof *shape);
    err = shape == NULL ? MPI_ERR_NO_MEM : remember_group(shape, comm);
    if (err != MPI_SUCCESS) {
        cf_layout_free(&layout);
        free(shape);
        return err;
    }
    atomic_init(&shape->users, 1);
    shape->layout = layout;
    cf_layout_name(&layout, shape->layout_name, sizeof shape->layout_name);
    cf_layout_name_with(&layout, 1, name, sizeof name);
    if (layout.size > 1 && !cf_rules_find(name, &layout, &shape->rules)) {
        cf_shape_leave(shape, true);
        return MPI_ERR_NO_MEM;
    }
    *out = shape;
    return MPI_SUCCESS;
}

bool cf_shape_take_lanes(struct cf_shape *shape, struct cf_layout *layout) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    bool good = true;
    (void)pthread_mutex_lock(&mutex);
    if (shape->full.k == 0) {
        good = cf_layout_add_lanes(layout);
        shape->full = layout->full;
        shape->single = layout->single;
    }
    layout->full = shape->full;
    layout->single = shape->single;
    (void)pthread_mutex_unlock(&mutex);
    return good;
}
