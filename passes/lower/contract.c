/* contract.c: matmul and conv as plain reductions, for the pass `to-loops`.
 *
 *     matmul:  c[b.., m, n] = sum over k of x[b.., m, k] * y[b.., k, n]
 *     conv:    y[n, o, q..] = sum over (c, k..) of x[n, g*C' + c, (q*stride + k*dilation - low) div apart ..] * w[o, c, k..]
 *              where g = o div (O / groups), apart is the input dilation; what is outside of x or between its elements reads 0
 *
 * Halves are multiplied and summed in f32, integers in their own width. Right, not fast: schedules with tensor cores
 * replace these nests later.
 */
#include "ir/graph/conv.h"
#include "passes/base/made.h"
#include "passes/lower/lower.h"

#include <string.h>

/* ---- matmul ---- */

static sn_val put_operand(sn_lower *lw, const sn_lower_product *p, uint32_t k) {
    sn_val v = k ? sn_lower_element(lw, p->b, p->b_index) : sn_lower_element(lw, p->a, p->a_index);
    if (p->rounded[k] != p->dtype) v = sn_put_cast(lw->m, lw->at, p->rounded[k], v);
    return sn_put_cast(lw->m, lw->at, p->dtype, v);
}

static void emit_matmul_body(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    sn_lower_product *p = user;
    p->a_index[p->a_k] = p->b_index[p->b_k] = index[0];
    sn_val a = put_operand(lw, p, 0), b = put_operand(lw, p, 1);
    yield[0] = sn_put_op2(lw->m, lw->at, SN_LOP_MUL, a, b);
}

/* Operand index of the batch axes (all but the last two) under the result index. */
static void batch_index(sn_lower *lw, const sn_type *t, const sn_ix *result, uint32_t result_batch, sn_ix *at) {
    uint32_t batch = t->rank > 2 ? t->rank - 2 : 0;
    sn_ix one = sn_ix_const(lw->m, 1), zero = sn_ix_const(lw->m, 0);
    for (uint32_t k = 0; k < batch; k++) at[k] = sn_ix_eq(t->shape[k], one) ? zero : result[result_batch - batch + k];
}

void sn_lower_product_at(sn_lower_product *out, sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *a = &sn_node_get(lw->m, n->in[0])->type, *b = &sn_node_get(lw->m, n->in[1])->type;
    uint32_t has_m = a->rank > 1, has_n = b->rank > 1, batch = n->type.rank - has_m - has_n;
    *out = (sn_lower_product){.a = n->in[0], .b = n->in[1], .dtype = sn_compute_dtype(n->type.dtype)};
    for (uint32_t k = 0; k < 2; k++) {
        bool computed = sn_matmul_makes(lw->m, lw->cx->target, x, k);
        out->rounded[k] = computed ? sn_matmul_narrow_dtype(lw->m, n->in[k]) : out->dtype;
    }
    batch_index(lw, a, index, batch, out->a_index);
    batch_index(lw, b, index, batch, out->b_index);
    out->a_k = a->rank - 1;
    out->b_k = has_n ? b->rank - 2 : 0;
    out->steps = a->shape[out->a_k];
    if (has_m) out->a_index[a->rank - 2] = index[batch];
    if (has_n) out->b_index[b->rank - 1] = index[batch + has_m];
}

sn_val sn_lower_matmul(sn_lower *lw, sn_nd x, const sn_ix *index) {
    sn_lower_product p;
    sn_val sum;
    sn_lower_product_at(&p, lw, x, index);
    sn_lower_reduce_nest(lw, &sum, SN_COMB_SUM, 1, &p.dtype, &p.steps, 1, emit_matmul_body, &p);
    return sum;
}

/* ---- conv ---- */

typedef struct conv_body {
    sn_nd image, weight;
    const sn_ix *result; /* position */
    sn_ix group_start;   /* first input channel of the group */
    sn_conv_geometry g;
    sn_dtype dtype;
} conv_body;

static void emit_conv_body(sn_lower *lw, void *user, const sn_ix *index, sn_val *yield) {
    conv_body *cb = user;
    sn_module *m = lw->m;
    const sn_type *image = &sn_node_get(m, cb->image)->type;
    sn_ix at[SN_MAX_RANK] = {cb->result[0], sn_ix_add(m, cb->group_start, index[0])};
    sn_ix tap[SN_MAX_RANK] = {cb->result[1], index[0]};
    sn_val mask = {0};
    for (uint32_t k = 0; k < cb->g.n; k++) {
        sn_ix from = sn_ix_scale(m, cb->result[2 + k], cb->g.stride[k]);
        sn_ix place = sn_ix_addc(m, sn_ix_add(m, from, sn_ix_scale(m, index[1 + k], cb->g.dilation[k])), -cb->g.low[k]);
        sn_lower_guard(lw, &mask, sn_ix_modc(m, place, cb->g.input_dilation[k]), sn_ix_const(m, 1));
        at[2 + k] = sn_ix_divc(m, place, cb->g.input_dilation[k]);
        sn_lower_guard(lw, &mask, at[2 + k], image->shape[2 + k]);
        tap[2 + k] = index[1 + k];
    }
    sn_val outside = lw->mask;
    lw->mask = mask;
    sn_val v = sn_put_cast(m, lw->at, cb->dtype, sn_lower_element(lw, cb->image, at));
    lw->mask = outside;
    if (mask.i) v = sn_put_op3(m, lw->at, SN_LOP_SELECT, mask, v, sn_put_const(m, lw->at, cb->dtype, 0));
    sn_val w = sn_put_cast(m, lw->at, cb->dtype, sn_lower_element(lw, cb->weight, tap));
    yield[0] = sn_put_op2(m, lw->at, SN_LOP_MUL, v, w);
}

sn_val sn_lower_conv(sn_lower *lw, sn_nd x, const sn_ix *index) {
    const sn_node_rec *n = sn_node_get(lw->m, x);
    const sn_type *w = &sn_node_get(lw->m, n->in[1])->type;
    conv_body cb = {.image = n->in[0],
                    .weight = n->in[1],
                    .result = index,
                    .g = sn_node_conv(lw->m, x),
                    .dtype = sn_compute_dtype(n->type.dtype)};
    sn_ix per_group = sn_ix_divc(lw->m, w->shape[0], cb.g.groups);
    cb.group_start = sn_ix_mul(lw->m, sn_ix_div(lw->m, index[1], per_group), w->shape[1]);
    sn_val sum;
    sn_lower_reduce_nest(lw, &sum, SN_COMB_SUM, 1, &cb.dtype, &w->shape[1], 1 + cb.g.n, emit_conv_body, &cb);
    return sum;
}
