/*
 * Level Zero. Prototypes and constants are those of ze_api.h 1.0. Memory belongs to a context of
 * the program, which is not known here. One context of our own per driver is used for queries and
 * copies instead, as in MPICH and libfabric.
 */
#include "device/gpu.h"

#include <pthread.h>

#include "base/symbol.h"

enum { SUCCESS = 0 };
enum { CONTEXT_DESC = 0xd, QUEUE_DESC = 0xe, ALLOCATION_PROPERTIES = 0x17 };
enum { MEMORY_TYPE_DEVICE = 2, MODE_SYNCHRONOUS = 1 };
enum { MOST_DRIVERS = 8 };

/* ze_context_desc_t, ze_command_queue_desc_t, ze_memory_allocation_properties_t */
struct context_desc {
    int kind;
    const void *next;
    uint32_t flags;
};
struct queue_desc {
    int kind;
    const void *next;
    uint32_t ordinal, index, flags;
    int mode, priority;
};
struct properties {
    int kind;
    void *next;
    int type;
    uint64_t id, page_size;
};

static struct {
    int (*drivers)(uint32_t *count, void **drivers);
    int (*create_context)(void *driver, const struct context_desc *desc, void **context);
    int (*properties)(void *context, const void *address, struct properties *properties,
                      void **device);
    int (*create_list)(void *context, void *device, const struct queue_desc *desc, void **list);
    int (*destroy_list)(void *list);
    int (*copy)(void *list, void *to, const void *from, size_t bytes, void *signal, uint32_t waits,
                void **events);
} ze;

static struct {
    pthread_mutex_t mutex;
    atomic_int count; /* 0 until the program has initialised Level Zero */
    void *context[MOST_DRIVERS];
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool find(void *library) {
    return cf_symbol(library, "zeDriverGet", &ze.drivers) &&
           cf_symbol(library, "zeContextCreate", &ze.create_context) &&
           cf_symbol(library, "zeMemGetAllocProperties", &ze.properties) &&
           cf_symbol(library, "zeCommandListCreateImmediate", &ze.create_list) &&
           cf_symbol(library, "zeCommandListDestroy", &ze.destroy_list) &&
           cf_symbol(library, "zeCommandListAppendMemoryCopy", &ze.copy);
}

/* Only the program may call zeInit. Before that there are no drivers and no device memory. */
static int contexts(void) {
    const struct context_desc desc = {.kind = CONTEXT_DESC};
    void *drivers[MOST_DRIVERS];
    uint32_t drivers_found = MOST_DRIVERS;
    int count = atomic_load(&known.count);
    if (count > 0) {
        return count;
    }
    (void)pthread_mutex_lock(&known.mutex);
    count = atomic_load(&known.count);
    if (count == 0 && ze.drivers(&drivers_found, drivers) == SUCCESS) {
        for (uint32_t i = 0; i < drivers_found && i < MOST_DRIVERS; i++) {
            count += ze.create_context(drivers[i], &desc, &known.context[count]) == SUCCESS;
        }
        atomic_store(&known.count, count);
    }
    (void)pthread_mutex_unlock(&known.mutex);
    return count;
}

/* The context of the driver that knows the address as device memory, and the device; NULL if
 * none. */
static void *context_of(const void *address, void **device) {
    const int count = contexts();
    for (int i = 0; i < count; i++) {
        struct properties found = {.kind = ALLOCATION_PROPERTIES};
        if (ze.properties(known.context[i], address, &found, device) == SUCCESS &&
            found.type == MEMORY_TYPE_DEVICE) {
            return known.context[i];
        }
    }
    return NULL;
}

static bool owns(const void *address) {
    void *device = NULL;
    return context_of(address, &device) != NULL;
}

/* The first queue group of a device supports copies. The queue is synchronous: the copy has
 * completed when the call returns. */
static bool copy(const void *at, void *to, const void *from, size_t bytes) {
    const struct queue_desc desc = {.kind = QUEUE_DESC, .mode = MODE_SYNCHRONOUS};
    void *device = NULL;
    void *list = NULL;
    void *context = context_of(at, &device);
    if (context == NULL || ze.create_list(context, device, &desc, &list) != SUCCESS) {
        return false;
    }
    const bool good = ze.copy(list, to, from, bytes, NULL, 0, NULL) == SUCCESS;
    return ze.destroy_list(list) == SUCCESS && good;
}

static bool read_memory(void *host, const void *device, size_t bytes) {
    return copy(device, host, device, bytes);
}

static bool write_memory(void *device, const void *host, size_t bytes) {
    return copy(device, device, host, bytes);
}

const struct cf_gpu cf_gpu_ze = {"Level Zero", "libze_loader.so", find,
                                 owns,         read_memory,       write_memory};
