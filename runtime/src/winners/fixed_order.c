#include "winners/fixed_order.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"

static bool applies(const struct cf_variant *variant, const struct cf_facts *facts) {
    struct cf_facts any = *facts;
    any.commutative = true;
    if (!variant->applicable(&any))
        return false;
    any.commutative = false;
    return variant->applicable(&any);
}

bool cf_order_is_fixed(const struct cf_choice *choice, const struct cf_facts *facts) {
    const struct cf_variant *variant = choice->variant;
    if (variant == NULL || variant->fixed_order == NULL || !applies(variant, facts))
        return false;
    for (int i = 0; i < variant->nparameters; i++) {
        const bool symbolic = variant->parameters[i].symbols != NULL;
        if (symbolic && (variant->fixed_order[i] >> choice->parameter[i] & 1) == 0)
            return false;
    }
    return true;
}

void cf_order_choose(int collective, const struct cf_facts *facts, struct cf_choice *choice) {
    memset(choice, 0, sizeof *choice);
    for (int v = 0; v < cf_nvariants && choice->variant == NULL; v++) {
        const struct cf_variant *variant = cf_variants[v];
        if (variant->collective != collective || variant->fixed_order == NULL ||
            !applies(variant, facts))
            continue;
        choice->variant = variant;
        for (int i = 0; i < variant->nparameters; i++)
            choice->parameter[i] = variant->parameters[i].symbols == NULL
                                       ? variant->parameters[i].values[0]
                                       : __builtin_ctzll(variant->fixed_order[i]);
    }
}

void cf_order_warn(const char *collective, const char *layout) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        cf_warn(
            "COLLFORGE_REPRODUCIBLE does not hold for %s on %s, and maybe for others: its "
            "communicators or shared memory cannot be had here",
            collective, layout);
}
