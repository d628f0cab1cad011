/* HIP (ROCm). Prototypes and constants are those of hip_runtime_api.h, ROCm 5 to 7. */
#include "device/gpu.h"

#include "base/symbol.h"

enum { SUCCESS = 0 };

/* ROCm 6 has renumbered the memory types. */
enum { RENUMBERED = 60000000, OLD_TYPE_DEVICE = 1, TYPE_DEVICE = 2 };

/* hipPointerAttribute_t */
struct attributes {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int is_managed;
    unsigned flags;
    char later[64]; /* room for later versions */
};

static struct {
    int (*attributes)(struct attributes *attributes, const void *address);
    int (*read)(void *host, void *device, size_t bytes);
    int (*write)(void *device, void *host, size_t bytes);
    int (*version)(int *version);
    int (*last_error)(void);
    int (*peek_at_last_error)(void);
} hip;

static int type_device = TYPE_DEVICE;

static bool find(void *library) {
    int version = 0;
    if (!cf_symbol(library, "hipPointerGetAttributes", &hip.attributes) ||
        !cf_symbol(library, "hipMemcpyDtoH", &hip.read) ||
        !cf_symbol(library, "hipMemcpyHtoD", &hip.write) ||
        !cf_symbol(library, "hipRuntimeGetVersion", &hip.version) ||
        !cf_symbol(library, "hipGetLastError", &hip.last_error) ||
        !cf_symbol(library, "hipPeekAtLastError", &hip.peek_at_last_error)) {
        return false;
    }
    if (hip.version(&version) == SUCCESS && version < RENUMBERED) {
        type_device = OLD_TYPE_DEVICE;
    }
    return true;
}

/* Before ROCm 6 the query is an error for memory unknown to HIP. That error is cleared, because the
 * program may ask for the last error. */
static bool owns(const void *address) {
    struct attributes found = {0};
    const bool clean = hip.peek_at_last_error() == SUCCESS;
    if (hip.attributes(&found, address) == SUCCESS) {
        return found.type == type_device && !found.is_managed;
    }
    if (clean) {
        (void)hip.last_error();
    }
    return false;
}

/* In the null stream, as CUDA's copies in the default stream. */
static bool read_memory(void *host, const void *device, size_t bytes) {
    return hip.read(host, (void *)device, bytes) == SUCCESS;
}

static bool write_memory(void *device, const void *host, size_t bytes) {
    return hip.write(device, (void *)host, bytes) == SUCCESS;
}

const struct cf_gpu cf_gpu_hip = {"HIP", "libamdhip64.so", find, owns, read_memory, write_memory};
