/* empty.c: tensors without elements, and what reads them. Part of the pass `simplify`.
 *
 *     %0 = exp %x : f32[0, 5] ;  %1 = sum %0 axes=[0] : f32[5]
 *  -> %1 = full value=0.0 shape=[5] : f32[5]
 *
 * A tensor without elements is a full of its type, whatever computes it: a full reads nothing. What has elements
 * although an operand has none (a reduction, a contraction over nothing, a pad, a concat, a scatter of no updates) does
 * not look at that operand. So no kernel loads from a buffer without elements, where every offset is out of bounds.
 * Composites but one are decomposed before they are looked at. Always legal; constant time.
 */
#include "ir/ops/scalar.h"
#include "passes/graph/rewrite.h"

#include <math.h>

static bool is_empty(const sn_module *m, const sn_type *t) {
    int64_t size;
    for (uint32_t k = 0; k < t->rank; k++)
        if (sn_ix_is_const(m, t->shape[k], &size) && size == 0) return true;
    return false;
}

static bool has_empty_operand(const sn_module *m, const sn_node_rec *node) {
    for (uint32_t k = 0; k < node->n_in; k++)
        if (is_empty(m, sn_type_of(m, node->in[k]))) return true;
    return false;
}

static sn_nd full_like(sn_module *m, const sn_type *t, double value) {
    return sn_graph_full(m, t->dtype, value, t->shape, t->rank);
}

/* The identity of its combiner, in the dtype that it is computed in. Positions are refused. */
static sn_nd reduced_nothing(sn_module *m, const sn_node_rec *node, sn_nd x) {
    sn_comb comb = (sn_comb)sn_ops[node->op].lop;
    sn_scalar state[2];
    if (sn_ops[node->op].lop < 0 || node->op == SN_OP_ARGMAX || node->op == SN_OP_ARGMIN) return x;
    sn_scalar_identity(comb, node->type.dtype, state);
    double value = sn_is_float(node->type.dtype) ? state[0].f : sn_int_to_double(node->type.dtype, state[0].i);
    return full_like(m, &node->type, value);
}

/* The operands that have elements. */
static sn_nd joined_rest(sn_pass_ctx *cx, const sn_node_rec *node, sn_nd x) {
    sn_nd *in = SN_NEWN(cx->scratch, sn_nd, node->n_in);
    uint32_t n = 0;
    for (uint32_t k = 0; k < node->n_in; k++)
        if (!is_empty(cx->m, sn_type_of(cx->m, node->in[k]))) in[n++] = node->in[k];
    return n ? sn_graph_node(cx->m, SN_OP_CONCAT, in, n, node->attrs, node->n_attrs) : x;
}

sn_nd sn_fold_empty(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    if (node->n_results > 1) return x;
    if (is_empty(m, &node->type)) return node->op == SN_OP_FULL ? x : full_like(m, &node->type, 0);
    if (!has_empty_operand(m, node)) return x;
    switch (sn_ops[node->op].cls) {
    case SN_OPS_REDUCE: return reduced_nothing(m, node, x);
    case SN_OPS_CONTRACT: return full_like(m, &node->type, 0);
    case SN_OPS_MOVE:
        if (node->op == SN_OP_PAD) return full_like(m, &node->type, sn_node_float(m, x, SN_ATTR_VALUE, 0));
        if (node->op == SN_OP_CONCAT) return joined_rest(cx, node, x);
        return node->op == SN_OP_SCATTER ? node->in[0] : x;
    case SN_OPS_COMPOSITE: /* the mean over no rows */
        return node->op == SN_OP_CROSS_ENTROPY ? full_like(m, &node->type, (double)NAN) : x;
    case SN_OPS_SOURCE:
    case SN_OPS_UNARY:
    case SN_OPS_BINARY:
    case SN_OPS_COMPARE:
    case SN_OPS_TEST:
    case SN_OPS_ELEMENT:
    case SN_OPS_SCAN:
    case SN_OPS_VIEW:
    case SN_OPS_REPEAT: return x;
    }
    return x;
}
