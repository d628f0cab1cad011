#include "comm/duplicates.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/library.h"

struct cf_common *cf_common_use(struct cf_common *common) {
    (void)atomic_fetch_add(&common->users, 1);
    return common;
}

void cf_common_leave(struct cf_common *common, bool may_call) {
    if (atomic_fetch_sub(&common->users, 1) > 1) {
        return;
    }
    if (common->group != MPI_GROUP_NULL && may_call) {
        (void)PMPI_Group_free(&common->group);
    }
    common->layout.full = common->full;
    common->layout.single = common->single;
    cf_layout_free(&common->layout);
    free(common);
}

bool cf_common_is_of(const struct cf_common *common, MPI_Comm comm) {
    MPI_Group group = MPI_GROUP_NULL;
    if (!cf_library.create_group_copies_attributes) {
        return true;
    }
    if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS) {
        return false;
    }
    const bool same = group == common->group;
    (void)PMPI_Group_free(&group);
    return same;
}

int cf_common_make(MPI_Comm comm, struct cf_common **out) {
    char name[CF_LAYOUT_NAME_SIZE];
    struct cf_layout layout;
    int err = cf_layout_build(&layout, comm);
    *out = NULL;
    if (err != MPI_SUCCESS || layout.size == 0) {
        return err;
    }
    struct cf_common *common = calloc(1, sizeof *common);
    if (common == NULL) {
        err = MPI_ERR_NO_MEM;
    } else if (cf_library.create_group_copies_attributes) {
        err = PMPI_Comm_group(comm, &common->group);
    } else {
        common->group = MPI_GROUP_NULL;
    }
    if (err != MPI_SUCCESS) {
        cf_layout_free(&layout);
        free(common);
        return err;
    }
    atomic_init(&common->users, 1);
    common->layout = layout;
    cf_layout_name(&layout, common->layout_name, sizeof common->layout_name);
    cf_layout_placement(&layout, name, sizeof name);
    if (layout.size > 1 && !cf_rules_find(name, &layout, &common->rules)) {
        cf_common_leave(common, true);
        return MPI_ERR_NO_MEM;
    }
    *out = common;
    return MPI_SUCCESS;
}

bool cf_common_take_lanes(struct cf_common *common, struct cf_layout *layout) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    bool good = true;
    (void)pthread_mutex_lock(&mutex);
    if (common->full.k == 0) {
        good = cf_layout_add_lanes(layout);
        common->full = layout->full;
        common->single = layout->single;
    }
    layout->full = common->full;
    layout->single = common->single;
    (void)pthread_mutex_unlock(&mutex);
    return good;
}
