/* The memory that this process has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_kib(void) {
    char line[200];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");

    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    fclose(file);
    return kib;
}
