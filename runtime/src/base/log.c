#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int log_level = 0;
static atomic_bool warned = false;

/* One write per line, so that lines of different processes do not mix. */
static void print_line(const char *kind, const char *format, va_list arguments) {
    char line[1024] = "";
    const int prefix = snprintf(line, sizeof line, "collforge: %s", kind);
    (void)vsnprintf(line + prefix, sizeof line - (size_t)prefix - 1, format, arguments);
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') {
            *c = ' ';
        }
    }
    (void)strcat(line, "\n");
    (void)fputs(line, stderr);
}

void cf_log_setup(int verbose) {
    log_level = verbose;
}

int cf_log_level(void) {
    return log_level;
}

void cf_log(int level, const char *format, ...) {
    if (level > log_level) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    print_line("", format, arguments);
    va_end(arguments);
}

void cf_warn(const char *format, ...) {
    if (atomic_exchange(&warned, true) && log_level < 1) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    print_line("warning: ", format, arguments);
    va_end(arguments);
}
