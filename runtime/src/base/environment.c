#include "base/environment.h"

#include <stdlib.h>
#include <string.h>

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

bool cf_variable_is_on(enum cf_variable variable) {
    const char *value = cf_variable(variable);
    return value != NULL && strcmp(value, "0") != 0;
}

void cf_variables_print(FILE *file) {
    (void)fprintf(file, "| variable | does |\n|---|---|\n");
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)fprintf(file, "| `%s=%s` | %s |\n", variables[i].name, variables[i].form,
                      variables[i].meaning);
}
