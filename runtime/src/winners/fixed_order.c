#include "winners/fixed_order.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"

static bool applies(const struct cf_variant *variant, const struct cf_facts *facts, bool commutes) {
    struct cf_facts any = *facts;
    any.commutative = commutes;
    return variant->applicable(&any);
}

static bool applies_to_all_ops(const struct cf_variant *variant, const struct cf_facts *facts) {
    return applies(variant, facts, true) && applies(variant, facts, false);
}

bool cf_order_is_fixed(const struct cf_choice *choice, const struct cf_facts *facts) {
    const struct cf_variant *variant = choice->variant;
    if (variant == NULL || variant->fixed_order == NULL || !applies_to_all_ops(variant, facts)) {
        return false;
    }
    for (int i = 0; i < variant->nparameters; i++) {
        const bool symbolic = variant->parameters[i].symbols != NULL;
        if (symbolic && (variant->fixed_order[i] >> choice->parameter[i] & 1) == 0) {
            return false;
        }
    }
    return true;
}

void cf_order_choose(int collective, const struct cf_facts *facts, struct cf_choice *choice) {
    const struct cf_variant *found = NULL;
    memset(choice, 0, sizeof *choice);
    for (int v = 0; v < cf_nvariants; v++) {
        const struct cf_variant *variant = cf_variants[v];
        if (variant->collective != collective || variant->fixed_order == NULL) {
            continue;
        }
        if (applies_to_all_ops(variant, facts)) {
            found = variant;
            break;
        }
        if (found == NULL && applies(variant, facts, true)) {
            found = variant;
        }
    }
    choice->variant = found;
    for (int i = 0; found != NULL && i < found->nparameters; i++) {
        choice->parameter[i] = found->parameters[i].symbols == NULL
                                   ? found->parameters[i].values[0]
                                   : __builtin_ctzll(found->fixed_order[i]);
    }
}

void cf_order_warn(const char *collective, const char *layout) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned)) {
        cf_warn(
            "COLLFORGE_REPRODUCIBLE does not hold for %s on %s, and maybe for others: its "
            "communicators or shared memory cannot be had here",
            collective, layout);
    }
}
