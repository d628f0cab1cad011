/*
 * A GPU runtime without a GPU. Its device memory are pages that nobody can access; its own copies
 * open them. -DCUDA, -DHIP=5, -DHIP=6 or -DZE: whose functions it has, as far as the runtime asks
 * for them. Like the real ones it is strict: CUDA's copies need a current context, HIP 5 remembers
 * an error for an address that it does not know, Level Zero has no driver before zeInit.
 *
 * STUB_POOL: CUDA's memory is of a pool, and so has no context.
 * STUB_ACCESSIBLE: anybody can access the pages, as with a GPU-aware MPI library.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 64 };

static struct {
    pthread_mutex_t mutex;
    struct {
        char *data;
        size_t bytes;
    } memory[MOST];
    long copies, asked;
    bool broken;
} stub = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static size_t whole_pages(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes / page + 1) * page;
}

static int closed(void) {
    return getenv("STUB_ACCESSIBLE") == NULL ? PROT_NONE : PROT_READ | PROT_WRITE;
}

/* The number of the memory that has these bytes, or -1. */
static int holder(const void *address, size_t bytes) {
    const uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < MOST; i++) {
        const uintptr_t begin = (uintptr_t)stub.memory[i].data;
        if (begin != 0 && at >= begin && at + bytes <= begin + stub.memory[i].bytes)
            return i;
    }
    return -1;
}

static bool copy(void *to, const void *from, size_t bytes, const void *device) {
    pthread_mutex_lock(&stub.mutex);
    const int i = stub.broken ? -1 : holder(device, bytes);
    if (i >= 0) {
        const size_t open = whole_pages(stub.memory[i].bytes);
        if (mprotect(stub.memory[i].data, open, PROT_READ | PROT_WRITE) != 0)
            abort();
        memcpy(to, from, bytes);
        if (mprotect(stub.memory[i].data, open, closed()) != 0)
            abort();
        stub.copies++;
    }
    pthread_mutex_unlock(&stub.mutex);
    return i >= 0;
}

static bool is_device(const void *address) {
    pthread_mutex_lock(&stub.mutex);
    stub.asked++;
    const bool found = holder(address, 1) >= 0;
    pthread_mutex_unlock(&stub.mutex);
    return found;
}

/* ---- for the tests ------------------------------------------------------------------------- */

void *stub_alloc(size_t bytes) {
    void *data =
        mmap(NULL, whole_pages(bytes), closed(), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_lock(&stub.mutex);
    for (int i = 0; i < MOST && data != MAP_FAILED; i++) {
        if (stub.memory[i].data == NULL) {
            stub.memory[i].data = data;
            stub.memory[i].bytes = bytes;
            pthread_mutex_unlock(&stub.mutex);
            return data;
        }
    }
    abort();
}

void stub_free(void *data) {
    pthread_mutex_lock(&stub.mutex);
    const int i = holder(data, 1);
    if (i < 0 || munmap(data, whole_pages(stub.memory[i].bytes)) != 0)
        abort();
    stub.memory[i].data = NULL;
    pthread_mutex_unlock(&stub.mutex);
}

/* Not counted. */
void stub_put(void *device, const void *host, size_t bytes) {
    stub.copies -= copy(device, host, bytes, device);
}

void stub_get(void *host, const void *device, size_t bytes) {
    stub.copies -= copy(host, device, bytes, device);
}

long stub_copies(void) {
    return stub.copies;
}

long stub_asked(void) {
    return stub.asked;
}

void stub_break(int broken) {
    stub.broken = broken;
}

#if defined(CUDA)

static _Thread_local int contexts = 0;
static int the_context;

int stub_error(void) {
    return contexts; /* left current by somebody */
}

int cuInit(unsigned flags) {
    return flags == 0 ? 0 : 1;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return number == 0 ? 0 : 101;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &the_context;
    return device == 0 ? 0 : 101;
}

int cuCtxGetCurrent(void **context) {
    *context = contexts > 0 ? &the_context : NULL;
    return 0;
}

int cuCtxPushCurrent_v2(void *context) {
    contexts++;
    return context == &the_context ? 0 : 201;
}

int cuCtxPopCurrent_v2(void **context) {
    *context = &the_context;
    return contexts-- > 0 ? 0 : 201;
}

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer) {
    void *context = getenv("STUB_POOL") == NULL ? &the_context : NULL;
    const int ordinal = 0;
    if (!is_device((const void *)(uintptr_t)pointer))
        return 1;
    if (attribute == 1)
        memcpy(data, &context, sizeof context);
    else if (attribute == 2 || attribute == 8)
        *(unsigned *)data = attribute == 2 ? 2 : 0;
    else if (attribute == 9)
        memcpy(data, &ordinal, sizeof ordinal);
    return attribute == 1 || attribute == 2 || attribute == 8 || attribute == 9 ? 0 : 1;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    *pointer = (unsigned long long)(uintptr_t)stub_alloc(bytes);
    return contexts > 0 ? 0 : 201;
}

int cuMemFree_v2(unsigned long long pointer) {
    stub_free((void *)(uintptr_t)pointer);
    return 0;
}

int cuMemcpyDtoH_v2(void *host, unsigned long long device, size_t bytes) {
    const void *from = (const void *)(uintptr_t)device;
    return contexts == 0 ? 201 : copy(host, from, bytes, from) ? 0 : 700;
}

int cuStreamSynchronize(void *stream) {
    return stream != NULL ? 400 : contexts == 0 ? 201 : 0;
}

int cuMemcpyHtoD_v2(unsigned long long device, const void *host, size_t bytes) {
    void *to = (void *)(uintptr_t)device;
    return contexts == 0 ? 201 : copy(to, host, bytes, to) ? 0 : 700;
}

#elif defined(HIP)

static _Thread_local int last_error = 0;

struct attributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

int stub_error(void) {
    return last_error;
}

int hipRuntimeGetVersion(int *version) {
    *version = HIP * 10000000 + 123456;
    return 0;
}

int hipGetLastError(void) {
    const int error = last_error;
    last_error = 0;
    return error;
}

int hipPeekAtLastError(void) {
    return last_error;
}

int hipPointerGetAttributes(struct attributes *attributes, const void *address) {
    memset(attributes, 0, sizeof *attributes);
    if (is_device(address)) {
        attributes->type = HIP < 6 ? 1 : 2;
        attributes->device_pointer = (void *)address;
        return 0;
    }
    last_error = HIP < 6 ? 1 : 0;
    return last_error;
}

int hipMemcpyDtoH(void *host, void *device, size_t bytes) {
    return copy(host, device, bytes, device) ? 0 : 700;
}

int hipMemcpyHtoD(void *device, void *host, size_t bytes) {
    return copy(device, host, bytes, device) ? 0 : 700;
}

#elif defined(ZE)

struct properties {
    int kind;
    void *next;
    int type;
    uint64_t id, page_size;
};

struct queue_desc {
    int kind;
    const void *next;
    uint32_t ordinal, index, flags;
    int mode, priority;
};

static int the_driver, the_device, the_context, the_list, lists = 0;

int stub_error(void) {
    return lists; /* not destroyed */
}

int zeDriverGet(uint32_t *count, void **drivers) {
    if (*count > 0)
        drivers[0] = &the_driver;
    *count = 1;
    return 0;
}

int zeContextCreate(void *driver, const int *desc, void **context) {
    *context = &the_context;
    return driver == &the_driver && *desc == 0xd ? 0 : 0x78000004;
}

int zeMemGetAllocProperties(void *context, const void *address, struct properties *properties,
                            void **device) {
    if (context != &the_context || properties->kind != 0x17)
        return 0x78000004;
    const bool found = is_device(address);
    properties->type = found ? 2 : 0;
    *device = found ? &the_device : NULL;
    return 0;
}

int zeCommandListCreateImmediate(void *context, void *device, const struct queue_desc *desc,
                                 void **list) {
    if (context != &the_context || device != &the_device || desc->kind != 0xe || desc->mode != 1)
        return 0x78000004;
    *list = &the_list;
    lists++;
    return 0;
}

int zeCommandListDestroy(void *list) {
    lists -= list == &the_list;
    return 0;
}

int zeCommandListAppendMemoryCopy(void *list, void *to, const void *from, size_t bytes,
                                  void *signal, uint32_t waits, void **events) {
    const void *device = holder(to, bytes) >= 0 ? to : from;
    if (list != &the_list || signal != NULL || waits != 0 || events != NULL)
        return 0x78000004;
    return copy(to, from, bytes, device) ? 0 : 0x70000001;
}

#endif
