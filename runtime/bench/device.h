/*
 * Device memory for the buffers under test, by CUDA's driver API out of the libcuda.so.1 that is
 * there when it is asked for (tests/gpu has one for machines without a GPU).
 */
#ifndef COLLFORGE_BENCH_DEVICE_H_INCLUDED
#define COLLFORGE_BENCH_DEVICE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/* Which buffers are in device memory. */
enum device_use { DEVICE_NOWHERE, DEVICE_EVERYWHERE, DEVICE_SOMEWHERE };

/* Loads the library and makes a context of the first device. No thread has it as its current one
 * outside of these functions. False where there is none. */
bool device_start(void);

/* Whether a buffer is in device memory, of those that take turns. */
bool device_takes(enum device_use use, unsigned turn);

/* Zero-initialised; it grows and is kept. The functions do nothing where it is not used, and end
 * the job when they fail. */
struct device_memory {
    bool used;
    char *data;
    size_t capacity;
};

void device_reserve(struct device_memory *memory, size_t bytes);
void device_upload(const struct device_memory *memory, const void *host, size_t bytes);
void device_download(const struct device_memory *memory, void *host, size_t bytes);
/* Whether it is used or not. */
void device_free(struct device_memory *memory);

#endif
