/* rules_conv.c: shape and dtype rule of conv (ir/graph/conv.h says what it computes). */
#include "ir/graph/conv.h"

#include "ir/graph/internal.h"

/* A list attribute has an entry for each of n axes, or (padding) one for each of their ends. */
static sn_status check_entries(const sn_rule *r, sn_attr_id id, uint32_t n, uint32_t ends) {
    const sn_attr *a = sn_rule_attr(r, id);
    if (!a || a->ints.n == n || a->ints.n == ends) return SN_OK;
    if (ends == n) return sn_rule_fail(r, "%s has %u entries, not %u", sn_attrs[id].name, a->ints.n, n);
    return sn_rule_fail(r, "%s has %u entries, not %u or %u (all low ends, then all high ends)", sn_attrs[id].name,
                        a->ints.n, n, ends);
}

static sn_status read_geometry(sn_conv_geometry *out, const sn_rule *r, uint32_t n) {
    SN_TRY(check_entries(r, SN_ATTR_STRIDE, n, n));
    SN_TRY(check_entries(r, SN_ATTR_PADDING, n, 2 * n));
    SN_TRY(check_entries(r, SN_ATTR_DILATION, n, n));
    SN_TRY(check_entries(r, SN_ATTR_INPUT_DILATION, n, n));
    *out = sn_conv_of(n, r->attrs, r->n_attrs);
    return sn_conv_check(r->m, sn_ops[r->op].name, out) ? SN_OK : r->m->env->status;
}

/* Results along spatial axis k. */
static sn_status result_size(sn_ix *out, const sn_rule *r, const sn_conv_geometry *c, uint32_t k) {
    sn_ix image = sn_rule_in(r, 0)->shape[2 + k], kernel = sn_rule_in(r, 1)->shape[2 + k];
    int64_t taps, size, span, padding = c->low[k] + c->high[k], apart = c->input_dilation[k];
    if (!sn_ix_is_const(r->m, kernel, &taps))
        return sn_rule_fail(r, "the kernel size %s must be constant", sn_ix_text(r->m, kernel));
    if (taps < 1) return sn_rule_fail(r, "the kernel has no elements along its axis %u", 2 + k);
    if (sn_mul_overflow(taps - 1, c->dilation[k], &span) || span > (int64_t)1 << 61)
        return sn_rule_fail(r, "the dilated kernel is too large");
    int64_t more = padding - span - 1 + 1 - apart;
    if (!sn_ix_is_const(r->m, image, &size)) {
        sn_ix have = sn_ix_addc(r->m, sn_ix_scale(r->m, image, apart), more);
        *out = sn_ix_addc(r->m, sn_ix_divc(r->m, have, c->stride[k]), 1);
        return SN_OK;
    }
    if (sn_mul_overflow(size, apart, &size) || size > (int64_t)1 << 61)
        return sn_rule_fail(r, "the dilated image is too large");
    if (size + more < 0)
        return sn_rule_fail(r, "a window of %lld does not fit a padded image of %lld (axis %u)", (long long)span + 1,
                            (long long)(size + 1 - apart + padding), 2 + k);
    *out = sn_ix_const(r->m, (size + more) / c->stride[k] + 1);
    return SN_OK;
}

static sn_status check_channels(const sn_rule *r, int64_t groups) {
    const sn_type *x = sn_rule_in(r, 0), *w = sn_rule_in(r, 1);
    sn_module *m = r->m;
    int64_t in_group, outs;
    bool known = sn_ix_is_const(m, w->shape[1], &in_group);
    if (known && sn_mul_overflow(in_group, groups, &in_group)) return sn_rule_fail(r, "too many channels");
    if (!sn_ix_eq(sn_ix_scale(m, w->shape[1], groups), x->shape[1]))
        return sn_rule_fail(r, "the image has %s channels but the weights take %s in each of %lld group%s",
                            sn_ix_text(m, x->shape[1]), sn_ix_text(m, w->shape[1]), (long long)groups,
                            groups == 1 ? "" : "s");
    if (!sn_ix_is_const(m, w->shape[0], &outs) ? groups != 1 : outs % groups != 0)
        return sn_rule_fail(r, "%s output channels do not divide into %lld groups", sn_ix_text(m, w->shape[0]),
                            (long long)groups);
    return SN_OK;
}

sn_status sn_rule_conv(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *w = sn_rule_in(r, 1);
    sn_conv_geometry c;
    SN_TRY(sn_rule_not_bool(r));
    SN_TRY(sn_rule_check_schedule(r));
    SN_TRY(sn_rule_same_dtype(r));
    if (x->rank != w->rank || x->rank < 3 || x->rank > 2 + SN_CONV_AXES)
        return sn_rule_fail(
            r, "takes x [N, C, S1..Sn] and weights [O, C/groups, K1..Kn] with 1 to %d spatial axes, not %s and %s",
            SN_CONV_AXES, sn_shape_text(r->m, x), sn_shape_text(r->m, w));
    SN_TRY(read_geometry(&c, r, x->rank - 2));
    SN_TRY(check_channels(r, c.groups));
    *r->out = (sn_type){.dtype = x->dtype, .rank = x->rank, .shape = {x->shape[0], w->shape[0]}};
    for (uint32_t k = 0; k < c.n; k++) SN_TRY(result_size(&r->out->shape[2 + k], r, &c, k));
    return SN_OK;
}
