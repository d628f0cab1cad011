#include "start/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/log.h"
#include "base/runtime.h"
#include "comm/learn.h"
#include "comm/report.h"
#include "winners/choice.h"
#include "winners/winners.h"

/* A number of bytes, with an optional unit K, M or G, as in 64M or 64MiB. */
static int64_t read_memory(void) {
    const char *text = cf_variable(CF_VARIABLE_MEMORY);
    char *end = NULL;
    if (text == NULL) {
        return CF_USUAL_MEMORY;
    }
    const long long number = strtoll(text, &end, 10);
    const char *units = "KMG";
    const char *at = *end == '\0' ? NULL : strchr(units, *end);
    const int shift = at == NULL ? 0 : 10 * (int)(at - units + 1);
    const bool unit = at != NULL && strlen(end) <= 3 && strspn(end, "KMGiB") == strlen(end);
    if (end != text && (*end == '\0' || unit) && number >= 0 && number <= INT64_MAX >> shift) {
        return (int64_t)number << shift;
    }
    cf_warn("COLLFORGE_MEMORY='%.80s' is no number of bytes such as 64M; taking 64M", text);
    return CF_USUAL_MEMORY;
}

/* Not strtod, whose point depends on the locale. */
static double read_guard_after(void) {
    static const char digits[] = "0123456789";
    const double usual = 1.5;
    const char *text = cf_variable(CF_VARIABLE_GUARD_AFTER);
    if (text == NULL) {
        return usual;
    }
    const size_t whole = strspn(text, digits);
    const char *part = text[whole] == '.' ? text + whole + 1 : "0";
    const size_t length = strspn(part, digits);
    double seconds = 0;
    double unit = 1;
    for (size_t i = 0; i < whole; i++) {
        seconds = 10 * seconds + (text[i] - '0');
    }
    for (size_t i = 0; i < length; i++) {
        seconds += (unit /= 10) * (part[i] - '0');
    }
    if (whole > 0 && length > 0 && part[length] == '\0' &&
        (text[whole] == '.' || text[whole] == '\0')) {
        return seconds;
    }
    cf_warn("COLLFORGE_GUARD_AFTER='%.80s' is no number of seconds such as 1.5; taking 1.5", text);
    return usual;
}

static bool read_reproducible(void) {
    const bool wanted = cf_variable_is_on(CF_VARIABLE_REPRODUCIBLE);
    if (wanted && cf_variable_is_on(CF_VARIABLE_NATIVE_ORDER)) {
        cf_warn(
            "COLLFORGE_REPRODUCIBLE is ignored beside COLLFORGE_NATIVE_ORDER: native orders "
            "differ between sizes");
    }
    return wanted && !cf_variable_is_on(CF_VARIABLE_NATIVE_ORDER);
}

static void read_report(struct cf_settings *settings) {
    const char *text = cf_variable(CF_VARIABLE_REPORT);
    if (text != NULL &&
        !cf_report_parse(text, &settings->report_seconds, &settings->report_signal)) {
        cf_warn("COLLFORGE_REPORT='%.80s' is neither seconds nor USR1 or USR2, nor both as 60,USR2",
                text);
        settings->report_seconds = settings->report_signal = 0;
    }
}

/* winners: those of COLLFORGE_FORCE. */
static void check_forced(const struct cf_winners *winners, bool nonblocking) {
    for (int i = 0; i < winners->count && !nonblocking; i++) {
        const struct cf_winner *one = &winners->items[i];
        if (cf_collectives[one->collective].collective != one->collective && one->variant >= 0) {
            cf_warn("COLLFORGE_FORCE names %s, which is native without COLLFORGE_NONBLOCKING=1",
                    cf_collectives[one->collective].name);
        }
    }
}

void cf_settings_read(struct cf_settings *settings, struct cf_winners *winners) {
    static const char *const levels[] = {"0", "1", "2"};
    static const char *const on_gpus[] = {"stage", "native"};
    static const char *const guards[] = {"0", "1", "reductions"}; /* enum cf_guard */
    char why[512] = "";
    const char *force = cf_variable(CF_VARIABLE_FORCE);
    const char *database = cf_variable(CF_VARIABLE_DB);
    if (cf_variable_is_on(CF_VARIABLE_DISABLE)) {
        return;
    }
    settings->verbose = cf_variable_word(CF_VARIABLE_VERBOSE, levels, 3, 0);
    settings->memory = read_memory();
    settings->gpu_native = cf_variable_word(CF_VARIABLE_GPU, on_gpus, 2, 0);
    settings->guard = cf_variable_word(CF_VARIABLE_GUARD, guards, 3, CF_GUARD_ON);
    settings->guard_after = read_guard_after();
    settings->split_ops = cf_variable_is_on(CF_VARIABLE_SPLIT_OPS);
    settings->nonblocking = cf_variable_is_on(CF_VARIABLE_NONBLOCKING);
    settings->check_ops = cf_variable_is_on(CF_VARIABLE_CHECK_OPS);
    settings->reproducible = read_reproducible();
    if (settings->reproducible) {
        settings->guard = CF_GUARD_OFF;
    }
    cf_log_setup(settings->verbose);
    cf_variables_check();
    settings->pretended = cf_variable(CF_VARIABLE_NODE_MAP) != NULL;
    if (force != NULL && !cf_force_parse(force, winners, why, sizeof why)) {
        cf_warn("COLLFORGE_FORCE is ignored: %s", why);
    }
    check_forced(winners, settings->nonblocking);
    if (database != NULL &&
        !cf_winners_load(database, cf_variable(CF_VARIABLE_DB_SHA256),
                         cf_variable(CF_VARIABLE_SYSTEM), winners, why, sizeof why)) {
        cf_warn("COLLFORGE_DB=%.300s is ignored: %s", database, why);
    }
    cf_learn_begin(winners->system);
    if (cf_variable_is_on(CF_VARIABLE_NATIVE_ORDER)) {
        cf_winners_drop_reductions(winners);
    }
    cf_winners_drop_untried(winners, (enum cf_guard)settings->guard);
    /* A fixed order serves what has no winner: it must know where native is forced. */
    const bool any = cf_winners_any(winners) || settings->reproducible;
    settings->nwinners = any ? winners->count : 0;
    settings->nlayouts = winners->nlayouts;
    settings->profile = cf_variable(CF_VARIABLE_PROFILE) != NULL;
    read_report(settings);
    const bool observed = settings->profile || settings->verbose >= 2 ||
                          settings->report_seconds > 0 || settings->report_signal > 0;
    settings->tuned = settings->nwinners > 0 || settings->reproducible;
    settings->tells = settings->verbose >= 1 || cf_variable(CF_VARIABLE_USAGE) != NULL;
    settings->mode = observed ? CF_MODE_OBSERVED : settings->tells ? CF_MODE_COUNTED : CF_MODE_ON;
    settings->wanted = observed || settings->tuned;
    cf_log(1, "version %s, %d winners%s", COLLFORGE_VERSION, settings->nwinners,
           settings->reproducible   ? ", reductions in a fixed order"
           : settings->nwinners > 0 ? ""
                                    : ": native for everything");
}
