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

static const char prefix[] = "COLLFORGE_";

enum { VARIABLES = sizeof variables / sizeof variables[0] };

static char *values[VARIABLES];

static void make_absolute(char **path) {
    char *folder = *path == NULL || **path == '/' ? NULL : getcwd(NULL, 0);
    if (folder != NULL) {
        const size_t size = strlen(folder) + strlen(*path) + 2;
        char *absolute = malloc(size);
        if (absolute != NULL) {
            (void)snprintf(absolute, size, "%s/%s", folder, *path);
            free(*path);
            *path = absolute;
        }
        free(folder);
    }
}

/* Programs change their environment and their directory after MPI_Init. A program with the rights
 * of another user, such as a set-uid one, must not be told which files to write. */
static void read_all(void) {
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = secure_getenv(variables[i].name);
        values[i] = value == NULL || *value == '\0' ? NULL : strdup(value);
    }
    make_absolute(&values[CF_VARIABLE_PROFILE]);
    make_absolute(&values[CF_VARIABLE_USAGE]);
    make_absolute(&values[CF_VARIABLE_LEARN]);
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

/* Whether a name of this length becomes the other by one letter more, less, changed or swapped. */
static bool is_misspelt(const char *name, size_t length, const char *other) {
    const size_t wanted = strlen(other);
    size_t same = 0;
    while (same < length && name[same] == other[same]) {
        same++;
    }
    const char *one = name + same;
    const char *two = other + same;
    const size_t left = length - same;
    const size_t right = wanted - same;
    const bool changed = left == right && left > 0 && memcmp(one + 1, two + 1, left - 1) == 0;
    const bool swapped = left == right && left > 1 && one[0] == two[1] && one[1] == two[0] &&
                         memcmp(one + 2, two + 2, left - 2) == 0;
    return changed || swapped || (left == right + 1 && memcmp(one + 1, two, right) == 0) ||
           (left + 1 == right && memcmp(one, two + 1, left) == 0);
}

void cf_variables_check(void) {
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        const char *meant = NULL;
        if (strncmp(*entry, prefix, sizeof prefix - 1) != 0) {
            continue;
        }
        for (int i = 0; i < VARIABLES; i++) {
            const char *name = variables[i].name;
            if (strlen(name) == length && memcmp(*entry, name, length) == 0) {
                meant = NULL;
                break;
            }
            meant = is_misspelt(*entry, length, name) ? name : meant;
        }
        if (meant != NULL) {
            cf_warn("%.*s is ignored: did you mean %s?", (int)length, *entry, meant);
        }
    }
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
