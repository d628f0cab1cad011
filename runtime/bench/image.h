/*
 * A buffer of a call: its memory with a guard before and after, filled with a pattern before the
 * words are stored. After a call one memcmp compares the whole image. It finds wrong results,
 * overwritten guards and holes, changed inputs, and results where the standard defines none.
 */
#ifndef COLLFORGE_BENCH_IMAGE_H_INCLUDED
#define COLLFORGE_BENCH_IMAGE_H_INCLUDED

#include "cases.h"
#include "device.h"
#include "placing.h"

enum {
    IMAGE_HEAD = 80, /* bytes before the first element and after the last: the guard, and room for a
                        negative lower bound that keeps the alignment */
    IMAGE_PATTERN = 0xa5 /* in guards, gaps, holes and results before the call */
};

struct memory {
    char *data;
    size_t capacity;
};

struct image {
    const char *name;
    const struct placing *placing; /* of the blocks that are defined after the call */
    size_t elements;
    size_t open; /* from this element on, the buffer is undefined after the call */
    size_t bytes;
    struct memory work; /* the call's memory: own, or in a hybrid piece of the node */
    struct memory own;
    struct device_memory device; /* if used, the call gets this memory, and work is its copy */
    struct memory before;        /* contents before the call */
    struct memory after;         /* expected contents after the call */
};

/* Bytes from one element to the one this many further on. */
size_t image_bytes_of(const struct problem *problem, size_t elements);
/* Begins an image, with the pattern everywhere in `before`. The blocks of the placing are defined
 * after the call. */
void image_create(struct image *image, const struct problem *problem, const char *name,
                  const struct placing *placing, size_t elements);
void image_free(struct image *image);
/* The first element. */
char *image_base(const struct memory *memory);
/* The address passed to the call. */
char *image_address(const struct image *image);
/* Stores count elements from this element on. */
void image_put(const struct problem *problem, struct memory *memory, size_t place, int count,
               const uint32_t *words);
/* Finds the first byte in [from, to) that differs from the contents that should be there. */
bool image_differs(const struct image *image, const struct memory *should, size_t from, size_t to,
                   size_t *at);
/* The same for the whole image. From element open on the contents may be anything: an in-place
 * reduce_scatter may overwrite them. */
bool image_is_right(const struct problem *problem, const struct image *image,
                    const struct memory *should, size_t *at);
/* Describes what the byte at this index of the image belongs to, and what is wrong with it. */
void image_describe(const struct problem *problem, const struct image *image,
                    const struct memory *should, size_t place, char *text, size_t size);

#endif
