/* fold.c: the value of a node whose operands are literals. Part of the pass `simplify`.
 *
 *     %0 = full value=2.0 shape=[8] : f32[8] ;  %1 = sqrt %0   becomes   %1 = full value=1.41421354 shape=[8] : f32[8]
 *
 * A full of any shape folds to a full; constants fold element by element while the result has at most SN_FOLD_MOST
 * elements. Views of a full are fulls. Legality: scalar.h computes and rounds as generated code does; an integer that
 * the attribute `value` (a double) cannot carry is left alone. Cost: the elements of the result.
 */
#include "ir/ops/scalar.h"
#include "passes/base/constants.h"
#include "passes/graph/rewrite.h"

#include <math.h>
#include <string.h>

enum { MAX_OPERANDS = 3 };

bool sn_is_uniform(const sn_module *m, sn_nd x, double *value) {
    const sn_node_rec *node = sn_node_get(m, x);
    if (node->op != SN_OP_FULL) return false;
    *value = sn_node_float(m, x, SN_ATTR_VALUE, 0);
    return true;
}

/* ---- reading and making literals ---- */

static sn_scalar scalar_of(sn_dtype t, double value) {
    return sn_scalar_cast(t, SN_F64, (sn_scalar){.f = value}, true);
}

/* Element i of a full or constant. */
static sn_scalar element(const sn_module *m, sn_nd x, int64_t i) {
    const sn_node_rec *node = sn_node_get(m, x);
    sn_dtype t = node->type.dtype;
    if (node->op == SN_OP_FULL) return scalar_of(t, sn_node_float(m, x, SN_ATTR_VALUE, 0));
    const sn_attr *values = sn_node_attr(m, x, SN_ATTR_VALUES);
    if (sn_is_float(t)) return (sn_scalar){.f = sn_round_to(t, values->numbers.f[i])};
    return (sn_scalar){.i = values->numbers.i[i]};
}

/* The full of that type, or `otherwise` when a double does not carry the value. */
static sn_nd make_full(sn_module *m, const sn_type *t, sn_scalar v, sn_nd otherwise) {
    if (sn_is_float(t->dtype)) return sn_graph_full(m, t->dtype, v.f, t->shape, t->rank);
    double value = sn_int_to_double(t->dtype, v.i);
    return fabs(value) > 0x1p53 ? otherwise : sn_graph_full(m, t->dtype, value, t->shape, t->rank);
}

static bool same_scalar(sn_dtype t, sn_scalar a, sn_scalar b) {
    return sn_is_float(t) ? !memcmp(&a.f, &b.f, sizeof a.f) : a.i == b.i;
}

static sn_nd make_constant(sn_pass_ctx *cx, const sn_type *t, const sn_scalar *v, int64_t n) {
    double *f = SN_NEWN(cx->scratch, double, n);
    int64_t *i = SN_NEWN(cx->scratch, int64_t, n);
    for (int64_t k = 0; k < n; k++) {
        f[k] = v[k].f;
        i[k] = v[k].i;
    }
    bool is_float = sn_is_float(t->dtype);
    sn_attr attrs[] = {
        {.id = SN_ATTR_DTYPE, .i = t->dtype},
        {.id = SN_ATTR_SHAPE, .shape = {t->shape, t->rank}},
        {.id = SN_ATTR_VALUES, .numbers = {is_float ? f : NULL, is_float ? NULL : i, (uint64_t)n}},
    };
    return sn_graph_node(cx->m, SN_OP_CONSTANT, NULL, 0, attrs, SN_COUNT(attrs));
}

/* ---- elementwise ---- */

static sn_scalar apply(const sn_module *m, const sn_node_rec *node, const sn_scalar *in) {
    sn_dtype from = sn_type_of(m, node->in[node->op == SN_OP_WHERE])->dtype;
    if (node->op == SN_OP_CAST) return sn_scalar_cast(node->type.dtype, from, in[0], true);
    return sn_scalar_op((sn_lop)sn_ops[node->op].lop, from, in[0], in[1], in[2], true);
}

/* Element of an operand that element i of the result reads (broadcasting). Sizes are constants. */
static int64_t operand_index(const sn_module *m, const sn_type *operand, const sn_type *result, int64_t i) {
    int64_t index = 0, stride = 1;
    for (uint32_t k = 0; k < result->rank; k++) {
        int64_t size = sn_ix_value(m, result->shape[result->rank - 1 - k]), at = i % size;
        i /= size;
        if (k >= operand->rank) continue;
        int64_t own = sn_ix_value(m, operand->shape[operand->rank - 1 - k]);
        if (own != 1) index += at * stride;
        stride *= own;
    }
    return index;
}

static sn_nd fold_elements(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    int64_t n, operand_n;
    if (!sn_type_static(m, &node->type, &n) || n > SN_FOLD_MOST) return x;
    for (uint32_t k = 0; k < node->n_in; k++)
        if (!sn_type_static(m, sn_type_of(m, node->in[k]), &operand_n)) return x;
    sn_scalar *v = SN_NEWN(cx->scratch, sn_scalar, n);
    for (int64_t i = 0; i < n; i++) {
        sn_scalar in[MAX_OPERANDS] = {0};
        for (uint32_t k = 0; k < node->n_in; k++)
            in[k] = element(m, node->in[k], operand_index(m, sn_type_of(m, node->in[k]), &node->type, i));
        v[i] = apply(m, node, in);
    }
    return make_constant(cx, &node->type, v, n);
}

static sn_nd fold_elementwise(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    sn_scalar in[MAX_OPERANDS] = {0};
    bool all_full = true;
    for (uint32_t k = 0; k < node->n_in; k++) {
        sn_op op = sn_node_get(m, node->in[k])->op;
        if (op != SN_OP_FULL && op != SN_OP_CONSTANT) return x;
        all_full = all_full && op == SN_OP_FULL;
        if (op == SN_OP_FULL) in[k] = element(m, node->in[k], 0);
    }
    return all_full ? make_full(m, &node->type, apply(m, node, in), x) : fold_elements(cx, x);
}

/* ---- the rest ---- */

/* All elements alike: a full. */
static sn_nd fold_constant(sn_pass_ctx *cx, sn_nd x) {
    const sn_type *t = sn_type_of(cx->m, x);
    int64_t n;
    if (!sn_type_static(cx->m, t, &n) || n == 0) return x;
    sn_scalar first = element(cx->m, x, 0);
    for (int64_t i = 1; i < n; i++)
        if (!same_scalar(t->dtype, first, element(cx->m, x, i))) return x;
    return make_full(cx->m, t, first, x);
}

/* Elements of a list: sizes that a graph computes with. */
static sn_nd fold_slice(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    int64_t n, start = sn_node_int(m, x, SN_ATTR_START, 0), step = sn_node_int(m, x, SN_ATTR_STEP, 1);
    if (node->type.rank != 1 || !sn_type_static(m, &node->type, &n) || n > SN_FOLD_MOST) return x;
    sn_scalar *v = SN_NEWN(cx->scratch, sn_scalar, n);
    for (int64_t i = 0; i < n; i++) v[i] = element(m, node->in[0], start + i * step);
    return make_constant(cx, &node->type, v, n);
}

static sn_nd fold_view(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    sn_nd in = node->in[0];
    const sn_node_rec *operand = sn_node_get(m, in);
    if (operand->op == SN_OP_FULL) return make_full(m, &node->type, element(m, in, 0), x);
    if (operand->op == SN_OP_CONSTANT && node->op == SN_OP_SLICE) return fold_slice(cx, x);
    bool same_order = node->op == SN_OP_RESHAPE || node->op == SN_OP_SQUEEZE || node->op == SN_OP_UNSQUEEZE;
    if (operand->op != SN_OP_CONSTANT || !same_order) return x;
    sn_attr attrs[] = {
        {.id = SN_ATTR_DTYPE, .i = node->type.dtype},
        {.id = SN_ATTR_SHAPE, .shape = {node->type.shape, node->type.rank}},
        *sn_node_attr(m, in, SN_ATTR_VALUES),
    };
    return sn_graph_node(m, SN_OP_CONSTANT, NULL, 0, attrs, SN_COUNT(attrs));
}

/* The largest, smallest, or/and of equal elements is one of them. Not of none. */
static sn_nd fold_reduction(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    const sn_type *from = sn_type_of(m, node->in[0]);
    int64_t n;
    bool picks = node->op == SN_OP_AMAX || node->op == SN_OP_AMIN || node->op == SN_OP_ANY || node->op == SN_OP_ALL;
    if (!picks || sn_node_get(m, node->in[0])->op != SN_OP_FULL || !sn_type_static(m, from, &n) || n == 0) return x;
    sn_scalar v = element(m, node->in[0], 0);
    return make_full(m, &node->type, sn_scalar_cast(node->type.dtype, from->dtype, v, true), x);
}

sn_nd sn_fold_literals(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    if (node->op == SN_OP_CONSTANT) return fold_constant(cx, x);
    if (sn_node_is_elementwise(node)) return fold_elementwise(cx, x);
    if (sn_ops[node->op].cls == SN_OPS_VIEW) return fold_view(cx, x);
    if (sn_ops[node->op].cls == SN_OPS_REDUCE) return fold_reduction(cx, x);
    return x;
}
