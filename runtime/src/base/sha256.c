#include "base/sha256.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 8, ROUNDS = 64, BLOCK = 64 };

static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t word, int bits) {
    return word >> bits | word << (32 - bits);
}

static void add_block(uint32_t state[WORDS], const unsigned char *block) {
    uint32_t w[ROUNDS];
    uint32_t s[WORDS];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (int i = 16; i < ROUNDS; i++) {
        const uint32_t a = w[i - 15];
        const uint32_t b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t a = s[0];
        const uint32_t e = s[4];
        const uint32_t first = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                               ((e & s[5]) ^ (~e & s[6])) + constants[i] + w[i];
        const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                                ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, (WORDS - 1) * sizeof *s);
        s[4] += first;
        s[0] = first + second;
    }
    for (int i = 0; i < WORDS; i++) {
        state[i] += s[i];
    }
}

void cf_sha256(const void *data, size_t bytes, char text[CF_SHA256_TEXT]) {
    uint32_t state[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[2 * BLOCK] = {0};
    const unsigned char *at = data;
    const size_t rest = bytes % BLOCK;
    /* After the data: a bit 1, zeros, and the number of bits in 8 bytes. */
    const size_t padded = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    for (size_t i = 0; i < bytes / BLOCK; i++, at += BLOCK) {
        add_block(state, at);
    }
    memcpy(last, at, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        last[padded - 1 - i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    }
    for (size_t i = 0; i < padded; i += BLOCK) {
        add_block(state, last + i);
    }
    for (int i = 0; i < WORDS; i++) {
        (void)snprintf(text + 8 * i, 9, "%08x", state[i]);
    }
}
