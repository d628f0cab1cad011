#include "device.h"

#include <dlfcn.h>
#include <stdint.h>

#include "base/symbol.h"
#include "report.h"

typedef unsigned long long device_pointer;

static struct {
    void *context;
    int (*init)(unsigned flags);
    int (*device)(int *device, int number);
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*alloc)(device_pointer *pointer, size_t bytes);
    int (*free)(device_pointer pointer);
    int (*read)(void *host, device_pointer device, size_t bytes);
    int (*write)(device_pointer device, const void *host, size_t bytes);
} cuda;

bool device_start(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int device = 0;

    return library != NULL && cf_symbol(library, "cuInit", &cuda.init) &&
           cf_symbol(library, "cuDeviceGet", &cuda.device) &&
           cf_symbol(library, "cuDevicePrimaryCtxRetain", &cuda.retain) &&
           cf_symbol(library, "cuCtxPushCurrent_v2", &cuda.push) &&
           cf_symbol(library, "cuCtxPopCurrent_v2", &cuda.pop) &&
           cf_symbol(library, "cuMemAlloc_v2", &cuda.alloc) &&
           cf_symbol(library, "cuMemFree_v2", &cuda.free) &&
           cf_symbol(library, "cuMemcpyDtoH_v2", &cuda.read) &&
           cf_symbol(library, "cuMemcpyHtoD_v2", &cuda.write) && cuda.init(0) == 0 &&
           cuda.device(&device, 0) == 0 && cuda.retain(&cuda.context, device) == 0;
}

static void begin(void) {
    if (cuda.push(cuda.context) != 0) {
        fail(EXIT_TROUBLE, "cuCtxPushCurrent");
    }
}

static void end(int err, const char *what) {
    void *context = NULL;
    if (err != 0 || cuda.pop(&context) != 0) {
        fail(EXIT_TROUBLE, "%s returned error %d", what, err);
    }
}

bool device_takes(enum device_use use, unsigned turn) {
    return use == DEVICE_EVERYWHERE || (use == DEVICE_SOMEWHERE && turn % 2 == 0);
}

static device_pointer pointer_to(const struct device_memory *memory) {
    return (device_pointer)(uintptr_t)memory->data;
}

void device_reserve(struct device_memory *memory, size_t bytes) {
    device_pointer pointer = 0;

    if (!memory->used || bytes <= memory->capacity) {
        return;
    }
    device_free(memory);
    begin();
    end(cuda.alloc(&pointer, bytes), "cuMemAlloc");
    memory->data = (char *)(uintptr_t)pointer;
    memory->capacity = bytes;
}

void device_upload(const struct device_memory *memory, const void *host, size_t bytes) {
    if (!memory->used) {
        return;
    }
    begin();
    end(cuda.write(pointer_to(memory), host, bytes), "cuMemcpyHtoD");
}

void device_download(const struct device_memory *memory, void *host, size_t bytes) {
    if (!memory->used) {
        return;
    }
    begin();
    end(cuda.read(host, pointer_to(memory), bytes), "cuMemcpyDtoH");
}

void device_free(struct device_memory *memory) {
    if (memory->data == NULL) {
        return;
    }
    begin();
    end(cuda.free(pointer_to(memory)), "cuMemFree");
    memory->data = NULL;
    memory->capacity = 0;
}
