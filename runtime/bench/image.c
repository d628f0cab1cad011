#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

char *image_base(const struct memory *memory) {
    return memory->data + IMAGE_HEAD;
}

char *image_address(const struct image *image) {
    return (image->device.used ? image->device.data : image->work.data) + IMAGE_HEAD;
}

size_t image_bytes_of(const struct problem *problem, size_t elements) {
    return elements * (size_t)problem->element->extent;
}

static void reserve(struct memory *memory, size_t bytes) {
    if (bytes <= memory->capacity) {
        return;
    }
    free(memory->data);
    memory->data = xmalloc(bytes);
    memory->capacity = bytes;
}

void image_put(const struct problem *problem, struct memory *memory, size_t place, int count,
               const uint32_t *words) {
    const struct element *element = problem->element;
    char *at = image_base(memory) + image_bytes_of(problem, place);

    for (int i = 0; i < count; i++, at += element->extent) {
        for (int lane = 0; lane < element->lanes; lane++, words++) {
            const double number = (int32_t)*words;
            const unsigned char byte = (unsigned char)*words;
            const void *word = element->kind == WORD_DOUBLE ? (const void *)&number
                               : element->kind == WORD_BYTE ? (const void *)&byte
                                                            : (const void *)words;
            memcpy(at + element->offset[lane], word, (size_t)element->word_bytes);
        }
    }
}

void image_create(struct image *image, const struct problem *problem, const char *name,
                  const struct placing *placing, size_t elements) {
    image->name = name;
    image->placing = placing;
    image->elements = elements;
    image->open = placing->elements < elements ? placing->elements : elements;
    image->bytes = image_bytes_of(problem, elements) + 2 * IMAGE_HEAD;
    reserve(&image->own, image->bytes);
    image->work = image->own;
    device_reserve(&image->device, image->bytes);
    reserve(&image->before, image->bytes);
    reserve(&image->after, image->bytes);
    memset(image->before.data, IMAGE_PATTERN, image->bytes);
}

bool image_differs(const struct image *image, const struct memory *should, size_t from, size_t to,
                   size_t *at) {
    const char *is = image->work.data;

    if (memcmp(is + from, should->data + from, to - from) == 0) {
        return false;
    }
    for (*at = from; is[*at] == should->data[*at]; ++*at)
        ;
    return true;
}

bool image_is_right(const struct problem *problem, const struct image *image,
                    const struct memory *should, size_t *at) {
    const size_t start = (size_t)(IMAGE_HEAD + problem->element->lb);
    const size_t open = should == &image->after ? image->open : image->elements;
    const size_t end = start + image_bytes_of(problem, image->elements);

    return !image_differs(image, should, 0, start + image_bytes_of(problem, open), at) &&
           !image_differs(image, should, end, image->bytes, at);
}

/* The block that contains this element of an image, or -1. */
static int block_at(const struct placing *placing, size_t index) {
    for (int block = 0; block < placing->blocks; block++) {
        const size_t at = placing->at[block];
        if (at <= index && index < at + (size_t)placing->count[block]) {
            return block;
        }
    }
    return -1;
}

void image_describe(const struct problem *problem, const struct image *image,
                    const struct memory *should, size_t place, char *text, size_t size) {
    const struct element *element = problem->element;
    const ptrdiff_t at = (ptrdiff_t)place - (IMAGE_HEAD + element->lb);
    const ptrdiff_t length = (ptrdiff_t)image_bytes_of(problem, image->elements);

    if (at < 0 || at >= length) {
        snprintf(text, size, "%s: overwritten %td bytes %s it", image->name,
                 at < 0 ? -at : at - length + 1, at < 0 ? "before" : "behind");
        return;
    }
    const size_t index = (size_t)(at / element->extent);
    const int within = (int)(at % element->extent) + element->lb;
    const int block = block_at(image->placing, index);
    if (block < 0) {
        snprintf(text, size, "%s: overwritten between the blocks, at element %zu of it",
                 image->name, index);
        return;
    }
    const int used = snprintf(text, size, "%s: block %d, element %zu", image->name, block,
                              index - image->placing->at[block]);
    for (int lane = 0; lane < element->lanes; lane++) {
        const int offset = element->offset[lane];
        if (within < offset || within >= offset + element->word_bytes) {
            continue;
        }
        const ptrdiff_t word = (ptrdiff_t)index * element->extent + offset;
        snprintf(text + used, size - (size_t)used, ", lane %d: expected %.17g, got %.17g", lane,
                 types_word(element, image_base(should) + word),
                 types_word(element, image_base(&image->work) + word));
        return;
    }
    snprintf(text + used, size - (size_t)used, ": the hole in it is overwritten");
}

void image_free(struct image *image) {
    free(image->own.data);
    device_free(&image->device);
    free(image->before.data);
    free(image->after.data);
}
