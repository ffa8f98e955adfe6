/* rules_nn.c: shape and dtype rules of contractions (matmul, conv2d) and composites (activations, normalisations,
 * losses). What they compute is in eval_nn.c, how they are decomposed in passes/graph/decompose.c.
 */
#include "ir/graph/internal.h"

static sn_status not_bool(const sn_rule *r) {
    sn_dtype t = sn_rule_in(r, 0)->dtype;
    return t == SN_BOOL ? sn_rule_refuse(r, t, true) : SN_OK;
}

/* ---- contractions ---- */

/* A header that nobody can read would be found where nobody knows the node any more. */
static sn_status check_schedule(const sn_rule *r) {
    const sn_attr *a = sn_rule_attr(r, SN_ATTR_SCHEDULE);
    sn_sched unused;
    return a ? sn_sched_read(&unused, r->m->env, sn_strf(&r->m->arena, "%s: schedule", sn_ops[r->op].name), a->text)
             : SN_OK;
}

sn_status sn_rule_matmul(sn_rule *r) {
    const sn_type *a = sn_rule_in(r, 0), *b = sn_rule_in(r, 1);
    sn_module *m = r->m;
    SN_TRY(not_bool(r));
    SN_TRY(check_schedule(r));
    SN_TRY(sn_rule_same_dtype(r));
    if (a->rank == 0 || b->rank == 0) return sn_rule_fail(r, "operand %d has no axes", a->rank == 0 ? 1 : 2);
    sn_ix inner_a = a->shape[a->rank - 1], inner_b = b->shape[b->rank == 1 ? 0 : b->rank - 2];
    if (!sn_ix_eq(inner_a, inner_b))
        return sn_rule_fail(r, "inner sizes differ (%s vs %s)", sn_ix_text(m, inner_a), sn_ix_text(m, inner_b));
    sn_type batch_a = *a, batch_b = *b;
    batch_a.rank = a->rank > 2 ? a->rank - 2 : 0;
    batch_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    SN_TRY(sn_broadcast(r->out, m, "matmul", &batch_a, &batch_b));
    if (a->rank > 1) r->out->shape[r->out->rank++] = a->shape[a->rank - 2];
    if (b->rank > 1) r->out->shape[r->out->rank++] = b->shape[b->rank - 1];
    return SN_OK;
}

enum { WINDOW_MAX = INT32_MAX }; /* keeps all window arithmetic inside int64 */

/* A list attribute of n entries (or of other_n), each in lowest .. WINDOW_MAX. */
static sn_status check_window(const sn_rule *r, sn_attr_id id, uint32_t n, uint32_t other_n, int64_t lowest) {
    const sn_attr *a = sn_rule_attr(r, id);
    if (!a) return SN_OK;
    if (a->ints.n != n && a->ints.n != other_n)
        return sn_rule_fail(r, "%s has %u entries, not %u", sn_attrs[id].name, a->ints.n, n);
    for (uint32_t k = 0; k < a->ints.n; k++)
        if (a->ints.at[k] < lowest || a->ints.at[k] > WINDOW_MAX)
            return sn_rule_fail(r, "%s %lld is not in %lld .. %d", sn_attrs[id].name, (long long)a->ints.at[k],
                                (long long)lowest, WINDOW_MAX);
    return SN_OK;
}

sn_conv sn_conv_of(const sn_attr *attrs, uint32_t n_attrs) {
    sn_conv c = {{1, 1}, {0, 0, 0, 0}, {1, 1}, 1};
    for (uint32_t i = 0; i < n_attrs; i++) {
        const sn_attr *a = &attrs[i];
        if (a->id == SN_ATTR_GROUPS) c.groups = a->i;
        for (uint32_t k = 0; k < 2 && a->id == SN_ATTR_STRIDE; k++) c.stride[k] = a->ints.at[k];
        for (uint32_t k = 0; k < 2 && a->id == SN_ATTR_DILATION; k++) c.dilation[k] = a->ints.at[k];
        /* [h, w] or [top, left, bottom, right]: entries 0 and 1 are repeated or followed by 2 and 3. */
        for (uint32_t k = 0; k < 4 && a->id == SN_ATTR_PADDING; k++) c.pad[k] = a->ints.at[k % a->ints.n];
    }
    return c;
}

/* Output size along image axis k (0: height, 1: width). */
static sn_status window_size(sn_ix *out, const sn_rule *r, const sn_conv *c, uint32_t k) {
    sn_ix image = sn_rule_in(r, 0)->shape[2 + k];
    int64_t taps, size, span;
    if (!sn_ix_is_const(r->m, sn_rule_in(r, 1)->shape[2 + k], &taps))
        return sn_rule_fail(r, "the kernel size %s must be constant", sn_ix_text(r->m, sn_rule_in(r, 1)->shape[2 + k]));
    if (taps < 1) return sn_rule_fail(r, "the kernel has no elements along its axis %u", 2 + k);
    if (sn_mul_overflow(taps - 1, c->dilation[k], &span) || span > (int64_t)1 << 62)
        return sn_rule_fail(r, "the dilated kernel is too large");
    int64_t more = c->pad[k] + c->pad[k + 2] - span - 1;
    if (!sn_ix_is_const(r->m, image, &size)) {
        *out = sn_ix_addc(r->m, sn_ix_divc(r->m, sn_ix_addc(r->m, image, more), c->stride[k]), 1);
        return SN_OK;
    }
    if (size + more < 0)
        return sn_rule_fail(r, "a window of %lld does not fit a padded image of %lld (axis %u)", (long long)span + 1,
                            (long long)(size + c->pad[k] + c->pad[k + 2]), 2 + k);
    *out = sn_ix_const(r->m, (size + more) / c->stride[k] + 1);
    return SN_OK;
}

static sn_status check_channels(const sn_rule *r, int64_t groups) {
    const sn_type *x = sn_rule_in(r, 0), *w = sn_rule_in(r, 1);
    sn_module *m = r->m;
    int64_t in_group, outs;
    if (groups < 1 || groups > WINDOW_MAX)
        return sn_rule_fail(r, "groups is %lld; it must be positive", (long long)groups);
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

sn_status sn_rule_conv2d(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *w = sn_rule_in(r, 1);
    SN_TRY(not_bool(r));
    SN_TRY(sn_rule_same_dtype(r));
    if (x->rank != 4 || w->rank != 4)
        return sn_rule_fail(r, "takes an image [N, C, H, W] and weights [O, C/groups, KH, KW], not %s and %s",
                            sn_shape_text(r->m, x), sn_shape_text(r->m, w));
    SN_TRY(check_window(r, SN_ATTR_STRIDE, 2, 2, 1));
    SN_TRY(check_window(r, SN_ATTR_DILATION, 2, 2, 1));
    SN_TRY(check_window(r, SN_ATTR_PADDING, 2, 4, 0));
    sn_conv c = sn_conv_of(r->attrs, r->n_attrs);
    SN_TRY(check_channels(r, c.groups));
    *r->out = (sn_type){.dtype = x->dtype, .rank = 4, .shape = {x->shape[0], w->shape[0]}};
    SN_TRY(window_size(&r->out->shape[2], r, &c, 0));
    return window_size(&r->out->shape[3], r, &c, 1);
}

/* ---- composites ---- */

sn_status sn_rule_relu(sn_rule *r) {
    *r->out = *sn_rule_in(r, 0);
    return not_bool(r);
}

sn_status sn_rule_activation(sn_rule *r) {
    *r->out = *sn_rule_in(r, 0);
    return sn_rule_need_float(r, 0);
}

sn_status sn_rule_softmax(sn_rule *r) {
    uint32_t axis;
    *r->out = *sn_rule_in(r, 0);
    SN_TRY(sn_rule_need_float(r, 0));
    return sn_rule_axis(&axis, r, sn_rule_attr(r, SN_ATTR_AXIS)->i, r->out->rank);
}

sn_status sn_rule_layer_norm(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *w = sn_rule_in(r, 1);
    SN_TRY(sn_rule_need_float(r, 0));
    SN_TRY(sn_rule_same_dtype(r));
    bool fits = w->rank > 0 && w->rank <= x->rank;
    for (uint32_t k = 0; fits && k < w->rank; k++) fits = sn_ix_eq(w->shape[k], x->shape[k + x->rank - w->rank]);
    if (!fits)
        return sn_rule_fail(r, "weight of shape %s does not cover the last axes of %s", sn_shape_text(r->m, w),
                            sn_shape_text(r->m, x));
    if (r->n_in > 2) {
        sn_type bias = *sn_rule_in(r, 2);
        if (!sn_type_eq(&bias, w))
            return sn_rule_fail(r, "bias has shape %s, weight has %s", sn_shape_text(r->m, &bias),
                                sn_shape_text(r->m, w));
    }
    *r->out = *x;
    return SN_OK;
}

/* Elements per channel when all sizes are known. */
static bool channel_count(const sn_rule *r, const sn_type *x, int64_t *out) {
    *out = 1;
    for (uint32_t k = 0; k < x->rank; k++) {
        int64_t size;
        if (k == 1) continue;
        if (!sn_ix_is_const(r->m, x->shape[k], &size)) return false;
        *out *= size;
    }
    return true;
}

sn_status sn_rule_batch_norm(sn_rule *r) {
    static const char *const roles[] = {"x", "weight", "bias", "running mean", "running variance"};
    const sn_type *x = sn_rule_in(r, 0);
    bool train = r->op == SN_OP_BATCH_NORM_TRAIN;
    int64_t count;
    SN_TRY(sn_rule_need_float(r, 0));
    SN_TRY(sn_rule_same_dtype(r));
    if (x->rank < 2) return sn_rule_fail(r, "x of shape %s has no channel axis 1", sn_shape_text(r->m, x));
    for (uint32_t k = 1; k < 5; k++) {
        const sn_type *p = sn_rule_in(r, k);
        if (p->rank != 1 || !sn_ix_eq(p->shape[0], x->shape[1]))
            return sn_rule_fail(r, "%s has shape %s for %s channels", roles[k], sn_shape_text(r->m, p),
                                sn_ix_text(r->m, x->shape[1]));
    }
    if (train && channel_count(r, x, &count) && count == 1)
        return sn_rule_fail(r, "one element per channel has no variance (shape %s)", sn_shape_text(r->m, x));
    if (train) r->n_results = 5;
    *r->out = r->result == 0 ? *x : *sn_rule_in(r, 1);
    return SN_OK;
}

sn_status sn_rule_cross_entropy(sn_rule *r) {
    const sn_type *x = sn_rule_in(r, 0), *target = sn_rule_in(r, 1);
    SN_TRY(sn_rule_need_float(r, 0));
    if (target->dtype != SN_I64 && target->dtype != SN_I32)
        return sn_rule_fail(r, "the target is %s, not i64", sn_dtypes[target->dtype].name);
    if (x->rank != 2 || target->rank != 1 || !sn_ix_eq(x->shape[0], target->shape[0]))
        return sn_rule_fail(r, "takes x [N, C] and target [N], not %s and %s", sn_shape_text(r->m, x),
                            sn_shape_text(r->m, target));
    int64_t rows, classes;
    bool no_classes = sn_ix_is_const(r->m, x->shape[1], &classes) && classes == 0;
    if (no_classes && sn_ix_is_const(r->m, x->shape[0], &rows) && rows > 0)
        return sn_rule_fail(r, "x of shape %s has no classes that the target could name", sn_shape_text(r->m, x));
    *r->out = (sn_type){.dtype = x->dtype};
    return SN_OK;
}
