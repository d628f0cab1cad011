#include "winners/load.h"

#include <errno.h>
#include <regex.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/library.h"
#include "winners/choice.h"

enum { MOST_SECONDS = 10, MOST_PATTERN = 255 };

/* Nanoseconds of a call: an hour. */
static const int64_t MOST_TIME = INT64_C(3600000000000);

bool cf_load_fail(struct cf_load *load, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(load->why, load->whysize, format, arguments);
    va_end(arguments);
    return false;
}

static time_t seconds_now(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

bool cf_load_begin(struct cf_load *load) {
    int length = 0;
    load->deadline = seconds_now() + MOST_SECONDS;
    load->before = load->winners->count;
    load->layouts_before = load->winners->nlayouts;
    (void)snprintf(load->system, sizeof load->system, "%s",
                   load->wanted == NULL ? "" : load->wanted);
    if (PMPI_Get_library_version(load->version, &length) != MPI_SUCCESS) {
        return cf_load_fail(load, "the MPI library returns no version");
    }
    length = (int)strlen(load->version);
    while (length > 0 && strchr(" \t\n", load->version[length - 1]) != NULL) {
        load->version[--length] = '\0';
    }
    memcpy(load->first_line, load->version, sizeof load->first_line);
    load->first_line[strcspn(load->first_line, "\n")] = '\0';
    return true;
}

bool cf_load_is_late(const struct cf_load *load) {
    return seconds_now() > load->deadline;
}

bool cf_load_is_file(struct cf_load *load) {
    struct stat status;
    if (stat(load->path, &status) != 0 && errno == ENOENT) {
        return cf_load_fail(load, "there is no such file; run 'collforge tune --db %s'",
                            load->path);
    }
    if (stat(load->path, &status) != 0) {
        return cf_load_fail(load, "%s; name a file that 'collforge tune' has written",
                            strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return cf_load_fail(load, "it is not a file; name one that 'collforge tune' has written");
    }
    if (status.st_size == 0) {
        return cf_load_fail(load, "it is empty; name a file that 'collforge tune' has written");
    }
    return true;
}

FILE *cf_load_open(const char *path, struct stat *status) {
    memset(status, 0, sizeof *status);
    const bool is_file = stat(path, status) == 0 && S_ISREG(status->st_mode);
    return is_file ? fopen(path, "rb") : NULL;
}

/* ---- the system ------------------------------------------------------------------------------ */

/* Back references, repeated repetitions and large numbers of repetitions can take a matcher
 * forever, or exhaust the memory. */
static bool is_harmless(const char *pattern) {
    for (const char *c = pattern; *c != '\0'; c++) {
        if ((*c == '\\' && c[1] >= '1' && c[1] <= '9') ||
            (c[1] == '{' && strchr(")}*+?", *c) != NULL) ||
            ((*c == '{' || *c == ',') && strspn(c + 1, "0123456789") > 2)) {
            return false;
        }
    }
    return strlen(pattern) <= MOST_PATTERN;
}

/* Whether the whole host name matches the pattern; an empty or malformed one matches none. */
static bool host_matches(const char *pattern, const char *host) {
    regex_t compiled;
    regmatch_t match;
    if (*pattern == '\0' || !is_harmless(pattern) ||
        regcomp(&compiled, pattern, REG_EXTENDED) != 0) {
        return false;
    }
    const bool matches = regexec(&compiled, host, 1, &match, 0) == 0 && match.rm_so == 0 &&
                         host[match.rm_eo] == '\0';
    regfree(&compiled);
    return matches;
}

void cf_systems_begin(struct cf_systems *systems) {
    memset(systems, 0, sizeof *systems);
    if (gethostname(systems->host, sizeof systems->host - 1) != 0) {
        systems->host[0] = '\0';
    }
}

/* No job runs on a simulation (reframe_checks/systems/simulated). */
static bool is_simulated(const char *name) {
    static const char kind[] = "simulated";
    const size_t length = sizeof kind - 1;
    return strncmp(name, kind, length) == 0 && (name[length] == '\0' || name[length] == '-');
}

void cf_systems_add(struct cf_systems *systems, const char *name, const char *pattern) {
    if (is_simulated(name)) {
        return;
    }
    systems->count++;
    (void)snprintf(systems->last, sizeof systems->last, "%s", name);
    if (!host_matches(pattern, systems->host)) {
        return;
    }
    systems->matches++;
    memcpy(systems->matching, systems->last, sizeof systems->matching);
}

bool cf_systems_choose(const struct cf_systems *systems, struct cf_load *load) {
    if (systems->count == 0) {
        return cf_load_fail(load, "it has no winners yet; run 'collforge tune'");
    }
    memcpy(load->system, systems->matches == 1 ? systems->matching : systems->last,
           sizeof load->system);
    return systems->matches == 1 || systems->count == 1 ||
           cf_load_fail(load, "%d of its %d systems match host %s; set COLLFORGE_SYSTEM",
                        systems->matches, systems->count, systems->host);
}

/* ---- a winner -------------------------------------------------------------------------------- */

static bool find_choice(struct cf_load *load, struct cf_load_choice *stored) {
    char why[256] = "";
    stored->index = cf_collective_find(stored->collective, strlen(stored->collective));
    if (stored->index < 0) {
        return cf_load_fail(load,
                            "this library has no collective '%.80s'; build it anew or tune anew",
                            stored->collective);
    }
    if (!cf_choice_parse(stored->variant, strlen(stored->variant), stored->index, &stored->choice,
                         why, sizeof why)) {
        return cf_load_fail(load, "%s; build the library anew or tune anew", why);
    }
    const struct cf_variant *variant = stored->choice.variant;
    if (variant != NULL && strcmp(variant->fingerprint, stored->fingerprint) != 0) {
        return cf_load_fail(load, "its %s for %s was measured with other generated code; tune anew",
                            variant->family, stored->collective);
    }
    if (variant != NULL && !stored->proven) {
        return cf_load_fail(load, "its %s for %s has no passing verification; tune anew",
                            variant->family, stored->collective);
    }
    stored->known = true;
    return true;
}

static struct cf_saving saving_of(const int64_t times[CF_TIMES]) {
    const int64_t own = times[0];
    const bool known = own > 0 && own <= MOST_TIME && times[2] > 0 && times[2] <= times[1] &&
                       times[1] <= times[3] && times[3] <= MOST_TIME;
    return known ? (struct cf_saving){1e-9f * (float)(times[1] - own),
                                      1e-9f * (float)(times[2] - own),
                                      1e-9f * (float)(times[3] - own)}
                 : (struct cf_saving){0};
}

bool cf_load_add(struct cf_load *load, const char *layout, int64_t bytes,
                 struct cf_load_choice *stored, bool tie, const int64_t times[CF_TIMES]) {
    struct cf_winners *winners = load->winners;
    const bool on_map = cf_layout_is_expected(layout);
    const int layouts = winners->nlayouts;
    if (bytes < 1 || bytes > CF_MOST_BYTES) {
        return true; /* always native */
    }
    if (winners->count >= CF_MOST_WINNERS) {
        return on_map || /* the map comes last */
               cf_load_fail(load, "it has more than %d winners; tune into a new file",
                            CF_MOST_WINNERS);
    }
    if (strlen(layout) >= CF_LAYOUT_NAME_SIZE || strcmp(layout, CF_ANY_LAYOUT) == 0) {
        return on_map || /* of a job's file, and no communicator has it */
               cf_load_fail(load,
                            "it is damaged (a layout name that cannot exist); restore it or "
                            "tune anew");
    }
    if (!stored->known && !find_choice(load, stored)) {
        /* A tuner replaces winners after each job, but the map at its end only. */
        if (on_map) {
            load->why[0] = '\0';
        }
        return on_map;
    }
    if (!cf_winners_add(winners, layout, stored->index, (int)bytes, &stored->choice)) {
        return cf_load_fail(load, "out of memory");
    }
    if (winners->nlayouts - load->layouts_before > CF_MOST_LAYOUTS) {
        winners->count -= on_map;
        winners->nlayouts = layouts;
        return on_map ||
               cf_load_fail(load, "it has winners for more than %d layouts; tune into a new file",
                            CF_MOST_LAYOUTS);
    }
    struct cf_winner *added = &winners->items[winners->count - 1];
    if (stored->choice.variant == NULL) {
        added->variant = tie ? CF_NATIVE_TIES : CF_NATIVE_WINS;
    } else {
        added->saving = saving_of(times);
    }
    return true;
}

bool cf_load_end(struct cf_load *load) {
    return load->winners->count > load->before ||
           cf_load_fail(load,
                        "it has no winners of system %s for %s; run 'collforge tune --system "
                        "%s --mpi %s'",
                        load->system, load->first_line, load->system, cf_library.name);
}

void cf_load_undo(const struct cf_load *load) {
    load->winners->count = load->before;
    load->winners->nlayouts = load->layouts_before;
}
