/* rules_nn.c: shape and dtype rules of matmul and composites (activations, normalisations, losses). What they
 * compute is in eval_nn.c, how they are decomposed in passes/graph/decompose.c.
 */
#include "ir/graph/internal.h"

sn_status sn_rule_not_bool(const sn_rule *r) {
    sn_dtype t = sn_rule_in(r, 0)->dtype;
    return t == SN_BOOL ? sn_rule_refuse(r, t, true) : SN_OK;
}

/* ---- matmul ---- */

sn_status sn_rule_check_schedule(const sn_rule *r) {
    const sn_attr *a = sn_rule_attr(r, SN_ATTR_SCHEDULE);
    sn_sched unused;
    return a ? sn_sched_read(&unused, r->m->env, sn_strf(&r->m->arena, "%s: schedule", sn_ops[r->op].name), a->text)
             : SN_OK;
}

sn_status sn_rule_matmul(sn_rule *r) {
    const sn_type *a = sn_rule_in(r, 0), *b = sn_rule_in(r, 1);
    sn_module *m = r->m;
    SN_TRY(sn_rule_not_bool(r));
    SN_TRY(sn_rule_check_schedule(r));
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

/* ---- composites ---- */

sn_status sn_rule_relu(sn_rule *r) {
    *r->out = *sn_rule_in(r, 0);
    return sn_rule_not_bool(r);
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
        return sn_rule_fail(r, "the target is %s, not i64 or i32", sn_dtypes[target->dtype].name);
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
