#define _GNU_SOURCE /* secure_getenv */
#include "base/environment.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static const struct {
    const char *name, *form, *meaning;
} variables[] = {
#define ENTRY(name, form, meaning) {"COLLFORGE_" #name, form, meaning},
    CF_VARIABLES(ENTRY)
#undef ENTRY
};

enum { VARIABLES = sizeof variables / sizeof variables[0] };

static char *values[VARIABLES];

/* Programs change their environment and their directory after MPI_Init. A program with the rights
 * of another user, such as a set-uid one, must not be told which files to write. */
static void read_all(void) {
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = secure_getenv(variables[i].name);
        values[i] = value == NULL || *value == '\0' ? NULL : strdup(value);
    }
    char *profile = values[CF_VARIABLE_PROFILE];
    char *folder = profile == NULL || *profile == '/' ? NULL : getcwd(NULL, 0);
    if (folder != NULL) {
        const size_t size = strlen(folder) + strlen(profile) + 2;
        char *path = malloc(size);
        if (path != NULL) {
            (void)snprintf(path, size, "%s/%s", folder, profile);
            free(profile);
            values[CF_VARIABLE_PROFILE] = path;
        }
        free(folder);
    }
}

const char *cf_variable(enum cf_variable variable) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_all);
    return values[variable];
}

int cf_variable_word(enum cf_variable variable, const char *const words[], int n, int usual) {
    const char *text = cf_variable(variable);
    char all[128] = "";
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(all);
        if (text != NULL && strcmp(text, words[i]) == 0) {
            return i;
        }
        (void)snprintf(all + used, sizeof all - used, i == 0 ? "%s" : ", %s", words[i]);
    }
    if (text != NULL) {
        cf_warn("%s='%.80s' is none of %s; taking %s", variables[variable].name, text, all,
                words[usual]);
    }
    return usual;
}

bool cf_variable_is_on(enum cf_variable variable) {
    const char *value = cf_variable(variable);
    return value != NULL && strcmp(value, "0") != 0;
}

void cf_variables_print(FILE *file) {
    (void)fprintf(file, "| variable | does |\n|---|---|\n");
    for (int i = 0; i < VARIABLES; i++) {
        (void)fprintf(file, "| `%s=%s` | %s |\n", variables[i].name, variables[i].form,
                      variables[i].meaning);
    }
}
