#define _GNU_SOURCE /* sched_getaffinity */

/* The only file that uses hwloc. The library is loaded on demand, as SQLite is, because most
 * programs do not need it. */
#include "place/topology.h"

#if defined(__has_include)
#if __has_include(<hwloc.h>)
#define HAS_HWLOC
#endif
#endif

#ifndef HAS_HWLOC

struct cf_seat cf_seat(void) {
    return (struct cf_seat){0, -1};
}

#else

#include <dlfcn.h>
#include <hwloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/symbol.h"

#if HWLOC_API_VERSION < 0x00020000
#error "hwloc 1 is not known here; install version 2"
#endif

static const char library_name[] = "libhwloc.so.15";

/* hwloc functions, with the types of its header. */
#define FUNCTIONS(X)                                                                               \
    X(topology_init)                                                                               \
    X(topology_set_flags)                                                                          \
    X(topology_load)                                                                               \
    X(topology_destroy)                                                                            \
    X(get_type_depth)                                                                              \
    X(get_nbobjs_by_depth)                                                                         \
    X(get_obj_by_depth)                                                                            \
    X(bitmap_alloc)                                                                                \
    X(bitmap_set)                                                                                  \
    X(bitmap_free)                                                                                 \
    X(bitmap_iszero)                                                                               \
    X(bitmap_isincluded)

struct functions {
#define DECLARE(name) __typeof__(&hwloc_##name) name;
    FUNCTIONS(DECLARE)
#undef DECLARE
};

static bool find_all(void *library, struct functions *hwloc) {
    bool good = true;

#define FIND(name) good = good && cf_symbol(library, "hwloc_" #name, &hwloc->name);
    FUNCTIONS(FIND)
#undef FIND
    return good;
}

/* The smallest object of a depth that contains all of these cores; -1: none. A NUMA domain without
 * cores of its own, such as the memory of a device, may belong to the whole machine. */
static int smallest_around(const struct functions *hwloc, hwloc_topology_t topology, int depth,
                           hwloc_const_bitmap_t cores) {
    const int objects = (int)hwloc->get_nbobjs_by_depth(topology, depth);
    hwloc_const_bitmap_t least = NULL;
    int found = -1;

    for (int i = 0; i < objects; i++) {
        const struct hwloc_obj *object = hwloc->get_obj_by_depth(topology, depth, (unsigned)i);
        const bool contains =
            !hwloc->bitmap_iszero(cores) && hwloc->bitmap_isincluded(cores, object->cpuset);
        if (contains && (least == NULL || !hwloc->bitmap_isincluded(least, object->cpuset))) {
            least = object->cpuset;
            found = i;
        }
    }
    return found;
}

/* The cores on which the calling thread may run. The kernel is asked, not hwloc: a launcher
 * (MPICH's Hydra) may pass the topology on as a file, for which hwloc reports no bindings. */
static bool find_cores(const struct functions *hwloc, hwloc_bitmap_t cores) {
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return false; /* also with more than CPU_SETSIZE cores */
    }
    for (unsigned core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed)) {
            (void)hwloc->bitmap_set(cores, core);
        }
    }
    return true;
}

static void ask(const struct functions *hwloc, struct cf_seat *seat) {
    /* With what this process may not use, so that ranks in cgroups of their own number alike.
     * HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED, which has another name in version 2.0. */
    const unsigned long whole = 1UL << 0;
    hwloc_topology_t topology = NULL;

    if (hwloc->topology_init(&topology) != 0) {
        return;
    }
    (void)hwloc->topology_set_flags(topology, whole);
    hwloc_bitmap_t cores = hwloc->bitmap_alloc();
    if (cores != NULL && hwloc->topology_load(topology) == 0 && find_cores(hwloc, cores)) {
        const int domain = smallest_around(hwloc, topology, HWLOC_TYPE_DEPTH_NUMANODE, cores);
        const int sockets = hwloc->get_type_depth(topology, HWLOC_OBJ_PACKAGE);
        seat->domain = domain < 0 ? 0 : domain;
        if (hwloc->get_nbobjs_by_depth(topology, sockets) > 1) {
            seat->socket = smallest_around(hwloc, topology, sockets, cores);
        }
    }
    hwloc->bitmap_free(cores);
    hwloc->topology_destroy(topology);
}

struct cf_seat cf_seat(void) {
    struct functions hwloc;
    struct cf_seat seat = {0, -1};
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);

    if (library != NULL) {
        if (find_all(library, &hwloc)) {
            ask(&hwloc, &seat);
        }
        (void)dlclose(library);
    }
    return seat;
}

#endif
