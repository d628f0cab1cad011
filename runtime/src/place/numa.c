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

int cf_numa_domain(void) {
    return 0;
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
    X(topology_load)                                                                               \
    X(topology_destroy)                                                                            \
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

/* The smallest domain that contains all of these cores: one without cores of its own, such as the
 * memory of a device, may belong to the whole machine. */
static int domain_of(const struct functions *hwloc, hwloc_topology_t topology,
                     hwloc_const_bitmap_t cores) {
    const int domains = (int)hwloc->get_nbobjs_by_depth(topology, HWLOC_TYPE_DEPTH_NUMANODE);
    hwloc_const_bitmap_t least = NULL;
    int found = 0;

    for (int i = 0; i < domains; i++) {
        const struct hwloc_obj *domain =
            hwloc->get_obj_by_depth(topology, HWLOC_TYPE_DEPTH_NUMANODE, (unsigned)i);
        const bool contains =
            !hwloc->bitmap_iszero(cores) && hwloc->bitmap_isincluded(cores, domain->cpuset);
        if (contains && (least == NULL || !hwloc->bitmap_isincluded(least, domain->cpuset))) {
            least = domain->cpuset;
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

static int ask(const struct functions *hwloc) {
    hwloc_topology_t topology = NULL;
    int domain = 0;

    if (hwloc->topology_init(&topology) != 0) {
        return 0;
    }
    hwloc_bitmap_t cores = hwloc->bitmap_alloc();
    if (cores != NULL && hwloc->topology_load(topology) == 0 && find_cores(hwloc, cores)) {
        domain = domain_of(hwloc, topology, cores);
    }
    hwloc->bitmap_free(cores);
    hwloc->topology_destroy(topology);
    return domain;
}

int cf_numa_domain(void) {
    struct functions hwloc;
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    int domain = 0;

    if (library != NULL) {
        domain = find_all(library, &hwloc) ? ask(&hwloc) : 0;
        (void)dlclose(library);
    }
    return domain;
}

#endif
