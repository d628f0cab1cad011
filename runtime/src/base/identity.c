#define _GNU_SOURCE /* dl_iterate_phdr */
#include "base/identity.h"

#include <stdio.h>
#include <string.h>

#include "base/cf.h"
#include "base/object.h"

static size_t aligned(size_t size) {
    return (size + 3) / 4 * 4;
}

/* Writes the hash if it is among the notes. */
static void read_notes(const char *notes, size_t size, char *text) {
    const ElfW(Nhdr) *note = NULL;
    for (size_t at = 0; at + sizeof *note <= size;
         at += sizeof *note + aligned(note->n_namesz) + aligned(note->n_descsz)) {
        note = (const void *)(notes + at);
        const char *name = notes + at + sizeof *note;
        const unsigned char *hash = (const void *)(name + aligned(note->n_namesz));
        if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != sizeof "GNU" ||
            memcmp(name, "GNU", sizeof "GNU") != 0) {
            continue;
        }
        for (size_t i = 0; i < note->n_descsz && 2 * i + 3 <= CF_IDENTITY_SIZE; i++) {
            (void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
        }
        return;
    }
}

static int read_own(struct dl_phdr_info *info, size_t size, void *text) {
    const bool own = cf_object_has(info, (uintptr_t)cf_fingerprint);
    (void)size;
    for (int i = 0; own && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE) {
            read_notes((const char *)(info->dlpi_addr + part->p_vaddr), part->p_memsz, text);
        }
    }
    return own;
}

void cf_identity(char text[CF_IDENTITY_SIZE]) {
    text[0] = '\0';
    (void)dl_iterate_phdr(read_own, text);
    if (text[0] == '\0') {
        (void)snprintf(text, CF_IDENTITY_SIZE, "%s", cf_fingerprint);
    }
}
