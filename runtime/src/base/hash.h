/* 64-bit FNV-1a: hash = (hash ^ byte) x prime, byte by byte. */
#ifndef COLLFORGE_HASH_H_INCLUDED
#define COLLFORGE_HASH_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#define CF_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t cf_hash(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Continues from a hash. */
static inline uint64_t cf_hash_text(uint64_t hash, const char *text) {
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    return cf_hash(hash, text, length);
}

#endif
