/* ops_reduce.c: reductions over axes, positions of extremes, prefix sums, softmax and its relatives.
 *
 *     y = ReduceL2(x, axes=[1])     becomes     %0 = mul %x, %x   %1 = sum %0 axes=[1] keepdim=true   %y = sqrt %1
 *
 * Axes are an attribute in older opsets and an operand in newer ones (from 13 for ReduceSum, from 18 for the others); a
 * node can have but one of the two. The result has the dtype of the operand: integers are summed as i64 and wrapped;
 * means, roots and logarithms of integers are computed in f64 and truncated.
 */
#include "frontend/onnx/import.h"

#include <math.h>

/* What a node reduces: operand 0 over these axes. */
typedef struct reduction {
    sn_nd x;
    int64_t axes[SN_MAX_RANK];
    uint32_t n;
    bool keep;
} reduction;

/* No axes mean all of them, unless noop_with_empty_axes says that they mean none. */
static sn_status read_reduction(reduction *r, sn_onnx_call *c) {
    const int64_t *at;
    uint32_t n;
    *r = (reduction){.x = sn_onnx_in(c, 0), .keep = sn_onnx_attr_int(c, "keepdims", 1) != 0};
    bool none = sn_onnx_attr_int(c, "noop_with_empty_axes", 0);
    uint32_t rank = sn_graph_type(c->m, r->x)->rank;
    if (!sn_onnx_attr_ints(&at, &n, c, "axes") && sn_onnx_has(c, 1)) SN_TRY(sn_onnx_ints(&at, &n, c, 1));
    if (n > SN_MAX_RANK) return sn_onnx_fail(c, "%u axes for a tensor of rank %u", n, rank);
    for (uint32_t k = 0; k < n; k++) r->axes[r->n++] = at[k];
    for (uint32_t k = 0; k < rank && !n && !none; k++) r->axes[r->n++] = k;
    return c->m->env->status;
}

/* x as a float type that sums, roots and logarithms are computed in. */
static sn_nd as_float(sn_module *m, sn_nd x) {
    return sn_is_integral(sn_graph_type(m, x)->dtype) ? sn_graph_cast(m, x, SN_F64) : sn_graph_widen(m, x);
}

static sn_nd reduced(sn_module *m, sn_op op, const reduction *r, sn_nd x) {
    return r->n ? sn_graph_reduce(m, op, x, r->axes, r->n, r->keep) : x;
}

static sn_status finish(sn_onnx_call *c, const reduction *r, sn_nd y) {
    return sn_onnx_done(c, sn_graph_cast(c->m, y, sn_graph_type(c->m, r->x)->dtype));
}

/* ---- one reduction ---- */

/* Of no elements at all the largest is -inf or false, the smallest inf or true. None where there are some. */
static sn_nd of_nothing(sn_module *m, sn_op op, const reduction *r) {
    const sn_type *x = sn_graph_type(m, r->x);
    bool empty = false;
    for (uint32_t k = 0; k < r->n; k++) {
        int64_t axis = r->axes[k] < 0 ? r->axes[k] + x->rank : r->axes[k], size;
        bool valid = axis >= 0 && axis < x->rank;
        empty = empty || (valid && sn_ix_is_const(m, x->shape[axis], &size) && size == 0);
    }
    bool is_bool = x->dtype == SN_BOOL, least = op == SN_OP_AMIN;
    if (!empty || (!sn_is_float(x->dtype) && !is_bool)) return (sn_nd){0};
    sn_type t = *sn_graph_type(m, reduced(m, SN_OP_SUM, r, r->x)); /* for its shape */
    return sn_graph_full(m, x->dtype, is_bool ? least : least ? INFINITY : -INFINITY, t.shape, t.rank);
}

sn_status sn_onnx_reduce(sn_onnx_call *c) {
    reduction r;
    sn_op op = (sn_op)c->op->arg;
    SN_TRY(read_reduction(&r, c));
    bool extreme = op == SN_OP_AMAX || op == SN_OP_AMIN, is_float = op == SN_OP_MEAN || op == SN_OP_LOGSUMEXP;
    sn_nd nothing = extreme ? of_nothing(c->m, op, &r) : (sn_nd){0};
    if (nothing.i) return sn_onnx_done(c, nothing);
    return finish(c, &r, reduced(c->m, op, &r, is_float ? as_float(c->m, r.x) : r.x));
}

/* ---- formulas around a sum ---- */

/* Sum of |x|. */
sn_status sn_onnx_reduce_l1(sn_onnx_call *c) {
    reduction r;
    SN_TRY(read_reduction(&r, c));
    return finish(c, &r, reduced(c->m, SN_OP_SUM, &r, sn_graph_unary(c->m, SN_OP_ABS, sn_graph_widen(c->m, r.x))));
}

/* Sum of x^2, and its root. */
sn_status sn_onnx_reduce_squares(sn_onnx_call *c) {
    reduction r;
    SN_TRY(read_reduction(&r, c));
    bool root = c->op->arg == SN_OP_SQRT;
    sn_nd x = root ? as_float(c->m, r.x) : sn_graph_widen(c->m, r.x);
    sn_nd sum = reduced(c->m, SN_OP_SUM, &r, sn_graph_mul(c->m, x, x));
    return finish(c, &r, root ? sn_graph_unary(c->m, SN_OP_SQRT, sum) : sum);
}

sn_status sn_onnx_reduce_log_sum(sn_onnx_call *c) {
    reduction r;
    SN_TRY(read_reduction(&r, c));
    sn_nd sum = reduced(c->m, SN_OP_SUM, &r, as_float(c->m, r.x));
    return finish(c, &r, sn_graph_unary(c->m, SN_OP_LOG, sum));
}

/* ---- along one axis ---- */

/* Position of the first extreme; of the last one, counted from the end of the flipped axis. */
sn_status sn_onnx_arg_extreme(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    bool last = sn_onnx_attr_int(c, "select_last_index", 0), keep = sn_onnx_attr_int(c, "keepdims", 1);
    uint32_t axis;
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", 0), sn_graph_type(m, x)->rank));
    int64_t at = axis;
    sn_nd found = sn_graph_reduce(m, (sn_op)c->op->arg, last ? sn_graph_flip(m, x, axis) : x, &at, 1, keep);
    if (!last) return sn_onnx_done(c, found);
    sn_ix end = sn_ix_addc(m, sn_graph_type(m, x)->shape[axis], -1);
    sn_nd top = sn_graph_reshape(m, sn_graph_sizes(m, &end, 1), NULL, 0);
    return sn_onnx_done(c, sn_graph_sub(m, top, found));
}

sn_status sn_onnx_scan_of(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    bool exclusive = sn_onnx_attr_int(c, "exclusive", 0), reverse = sn_onnx_attr_int(c, "reverse", 0);
    int64_t axis;
    SN_TRY(sn_onnx_int(&axis, c, 1));
    sn_nd y = sn_graph_scan(c->m, (sn_op)c->op->arg, x, axis, exclusive, reverse);
    return sn_onnx_done(c, sn_graph_cast(c->m, y, sn_graph_type(c->m, x)->dtype));
}

/* ---- softmax and its relatives ---- */

/* Positions where the largest element of the axis stands first: 1, others: 0. */
static sn_nd hardmax(sn_module *m, sn_nd x, int64_t axis) {
    sn_type t = *sn_graph_type(m, x);
    sn_nd first = sn_graph_reduce(m, SN_OP_ARGMAX, x, &axis, 1, true);
    sn_nd here = sn_graph_iota(m, SN_I64, axis, t.shape, t.rank);
    return sn_graph_cast(m, sn_graph_binary(m, SN_OP_EQ, here, first), t.dtype);
}

/* x with the axes from `axis` on joined to one. */
static sn_nd joined_from(sn_module *m, sn_nd x, uint32_t axis) {
    sn_type t = *sn_graph_type(m, x);
    t.shape[axis] = sn_ix_product(m, t.shape + axis, t.rank - axis);
    return sn_graph_reshape(m, x, t.shape, axis + 1);
}

/* Along one axis; before opset 13 along all axes from it on, as one. */
sn_status sn_onnx_softmax(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    sn_type t = *sn_graph_type(m, x);
    sn_op op = (sn_op)c->op->arg;
    uint32_t axis;
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", c->opset < 13 ? 1 : -1), t.rank));
    bool join = c->opset < 13 && axis + 1 < t.rank;
    if (join) x = joined_from(m, x, axis);
    sn_nd y = op == SN_OP_ARGMAX ? hardmax(m, x, axis) : sn_graph_along(m, op, x, axis);
    return sn_onnx_done(c, join ? sn_graph_reshape(m, y, t.shape, t.rank) : y);
}
