/* SHA-256 (FIPS 180-4). */
#ifndef COLLFORGE_SHA256_H_INCLUDED
#define COLLFORGE_SHA256_H_INCLUDED

#include <stddef.h>

enum { CF_SHA256_TEXT = 65 };

/* Writes the digest of these bytes as 64 hexadecimal digits, as sha256sum does. */
void cf_sha256(const void *data, size_t bytes, char text[CF_SHA256_TEXT]);

#endif
