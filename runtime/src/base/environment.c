#include "base/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const struct {
    const char *name, *form, *meaning;
} variables[] = {
#define ENTRY(name, form, meaning) {"COLLFORGE_" #name, form, meaning},
    CF_VARIABLES(ENTRY)
#undef ENTRY
};

const char *cf_variable(enum cf_variable variable) {
    const char *value = getenv(variables[variable].name);
    return value == NULL || *value == '\0' ? NULL : value;
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
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        (void)fprintf(file, "| `%s=%s` | %s |\n", variables[i].name, variables[i].form,
                      variables[i].meaning);
    }
}
