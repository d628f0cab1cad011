/*
 * Device memory for the buffers under test, through CUDA's driver API in libcuda.so.1 (tests/gpu
 * has a stub for machines without a GPU).
 */
#ifndef COLLFORGE_BENCH_DEVICE_H_INCLUDED
#define COLLFORGE_BENCH_DEVICE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/* Which buffers are in device memory. */
enum device_use { DEVICE_NOWHERE, DEVICE_EVERYWHERE, DEVICE_SOMEWHERE };

/* Loads the library and creates a context on the first device. The context is current only inside
 * these functions. False if there is no library or no device. */
bool device_start(void);

/* Whether buffer number `turn` is in device memory (DEVICE_SOMEWHERE: every second one). */
bool device_takes(enum device_use use, unsigned turn);

/* Zero-initialised; it grows and is reused. The functions do nothing if it is not used, and end the
 * job on an error. */
struct device_memory {
    bool used;
    char *data;
    size_t capacity;
};

void device_reserve(struct device_memory *memory, size_t bytes);
void device_upload(const struct device_memory *memory, const void *host, size_t bytes);
void device_download(const struct device_memory *memory, void *host, size_t bytes);
/* Frees the memory, whether it is used or not. */
void device_free(struct device_memory *memory);

#endif
