/* Loaded objects, in callbacks of dl_iterate_phdr, which does not take the loader's lock. */
#ifndef COLLFORGE_OBJECT_H_INCLUDED
#define COLLFORGE_OBJECT_H_INCLUDED

#include <link.h> /* with _GNU_SOURCE */
#include <stdbool.h>
#include <stdint.h>

/* Whether the address lies in the object. */
static inline bool cf_object_has(const struct dl_phdr_info *info, uintptr_t address) {
    bool has = false;
    for (int i = 0; i < info->dlpi_phnum && !has; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        has = part->p_type == PT_LOAD &&
              address - (uintptr_t)(info->dlpi_addr + part->p_vaddr) < part->p_memsz;
    }
    return has;
}

#endif
