/*
 * CUDA, by its driver API: every CUDA program loads libcuda.so.1, while many link libcudart
 * statically. Prototypes and constants are those of cuda.h.
 */
#include "device/gpu.h"

#include <stdatomic.h>

#include "base/symbol.h"

enum { SUCCESS = 0 };
enum {
    ATTRIBUTE_CONTEXT = 1,
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_DEVICE_ORDINAL = 9,
};
enum { MEMORY_TYPE_DEVICE = 2 };

enum { MOST_DEVICES = 64 };

typedef unsigned long long device_pointer;

static struct {
    int (*attribute)(void *data, int attribute, device_pointer pointer);
    int (*device)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*current)(void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*read)(void *host, device_pointer device, size_t bytes);
    int (*write)(device_pointer device, const void *host, size_t bytes);
    int (*wait)(void *stream);
} cuda;

static bool find(void *library) {
    return cf_symbol(library, "cuPointerGetAttribute", &cuda.attribute) &&
           cf_symbol(library, "cuDeviceGet", &cuda.device) &&
           cf_symbol(library, "cuDevicePrimaryCtxRetain", &cuda.retain) &&
           cf_symbol(library, "cuCtxGetCurrent", &cuda.current) &&
           cf_symbol(library, "cuCtxPushCurrent_v2", &cuda.push) &&
           cf_symbol(library, "cuCtxPopCurrent_v2", &cuda.pop) &&
           cf_symbol(library, "cuMemcpyDtoH_v2", &cuda.read) &&
           cf_symbol(library, "cuMemcpyHtoD_v2", &cuda.write) &&
           cf_symbol(library, "cuStreamSynchronize", &cuda.wait);
}

static device_pointer pointer_to(const void *address) {
    return (device_pointer)(uintptr_t)address;
}

/* An error means that CUDA does not know the address, or is not initialised, so that no device
 * memory exists yet. Managed memory is not owned: the processor can access it. */
static bool owns(const void *address) {
    unsigned type = 0;
    unsigned managed = 0;
    return cuda.attribute(&type, ATTRIBUTE_MEMORY_TYPE, pointer_to(address)) == SUCCESS &&
           type == MEMORY_TYPE_DEVICE &&
           (cuda.attribute(&managed, ATTRIBUTE_IS_MANAGED, pointer_to(address)) != SUCCESS ||
            managed == 0);
}

/* Memory of a pool (cudaMallocAsync) has no context. Its device's primary context exists, because
 * the program needs it. It is retained once more, until the process ends. */
static void *primary_context(const void *device) {
    static _Atomic(void *) known[MOST_DEVICES];
    int ordinal = 0;
    int number = 0;
    if (cuda.attribute(&ordinal, ATTRIBUTE_DEVICE_ORDINAL, pointer_to(device)) != SUCCESS ||
        ordinal < 0 || ordinal >= MOST_DEVICES) {
        return NULL;
    }
    void *context = atomic_load(&known[ordinal]);
    if (context == NULL && cuda.device(&number, ordinal) == SUCCESS &&
        cuda.retain(&context, number) == SUCCESS) {
        atomic_store(&known[ordinal], context);
    }
    return context;
}

/* In a thread that has not used CUDA there is no context, and copies fail. It pushes the context of
 * the memory for the copy. */
static bool borrow_context(const void *device) {
    void *context = NULL;
    if (cuda.current(&context) != SUCCESS || context != NULL ||
        cuda.attribute(&context, ATTRIBUTE_CONTEXT, pointer_to(device)) != SUCCESS) {
        return false;
    }
    if (context == NULL) {
        context = primary_context(device);
    }
    return context != NULL && cuda.push(context) == SUCCESS;
}

static void return_context(bool borrowed) {
    void *context = NULL;
    if (borrowed) {
        (void)cuda.pop(&context);
    }
}

/*
 * Copies use the default stream, so they do not wait for streams made with CU_STREAM_NON_BLOCKING.
 * As with a GPU-aware MPI library, the program must have the data ready before it calls. A copy
 * from pageable memory may return before it is complete on the device (CUDA driver API, "API
 * synchronization behavior"), hence the wait after it.
 */
static bool read_memory(void *host, const void *device, size_t bytes) {
    const bool borrowed = borrow_context(device);
    const bool good = cuda.read(host, pointer_to(device), bytes) == SUCCESS;
    return_context(borrowed);
    return good;
}

static bool write_memory(void *device, const void *host, size_t bytes) {
    const bool borrowed = borrow_context(device);
    const bool good =
        cuda.write(pointer_to(device), host, bytes) == SUCCESS && cuda.wait(NULL) == SUCCESS;
    return_context(borrowed);
    return good;
}

const struct cf_gpu cf_gpu_cuda = {"CUDA", "libcuda.so", find, owns, read_memory, write_memory};
