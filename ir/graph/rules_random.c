/* rules_random.c: shape and dtype rules of random, random_normal and dropout. Their last two operands are the
 * seed and the offset, i64 numbers that may change from run to run.
 */
#include "ir/graph/internal.h"

static sn_status check_stream(const sn_rule *r) {
    static const char *const roles[] = {"seed", "offset"};
    for (uint32_t k = 0; k < 2; k++) {
        const sn_type *t = sn_rule_in(r, r->n_in - 2 + k);
        if (t->dtype != SN_I64 || t->rank != 0)
            return sn_rule_fail(r, "the %s is %s, not i64[]", roles[k], sn_type_text(r->m, t));
    }
    return SN_OK;
}

static sn_status numbers(sn_rule *r, bool only_floats) {
    const sn_attr *shape = sn_rule_attr(r, SN_ATTR_SHAPE);
    sn_dtype t = (sn_dtype)sn_rule_attr(r, SN_ATTR_DTYPE)->i;
    if (t == SN_BOOL || (only_floats && !sn_is_float(t))) return sn_rule_refuse(r, t, false);
    r->out->dtype = t;
    r->out->rank = shape->shape.n;
    for (uint32_t k = 0; k < shape->shape.n; k++) r->out->shape[k] = shape->shape.at[k];
    return check_stream(r);
}

sn_status sn_rule_random(sn_rule *r) { return numbers(r, false); }
sn_status sn_rule_random_normal(sn_rule *r) { return numbers(r, true); }

sn_status sn_rule_dropout(sn_rule *r) {
    double p = sn_rule_attr(r, SN_ATTR_P)->f;
    *r->out = *sn_rule_in(r, 0);
    SN_TRY(sn_rule_need_float(r, 0));
    if (!(p >= 0 && p <= 1)) return sn_rule_fail(r, "p is %g, not in 0 .. 1", p);
    return check_stream(r);
}
