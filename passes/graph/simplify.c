/* simplify.c: the pass `simplify`: fold constants, drop no-ops, cheap algebra, dead and duplicate nodes.
 *
 *     %0 = full value=0.0 shape=[8, 4] : f32[8, 4]
 *     %1 = permute %x perm=[1, 0]                      becomes      return %x
 *     %2 = permute %1 perm=[1, 0] ; %3 = sub %2, %0
 *
 * Legality: every rewrite gives the same bits on finite numbers, infinities, nan and signed zeros (two exceptions that
 * ops.def does not tell apart: the payload of a nan, and the sum of a single -0.0; and one that it does: zeros around an image that become
 * the padding of its convolution are multiplied by no weight, also where that is infinite or nan). So x + 0.0 stays, because it turns
 * -0.0 into 0.0, but x + -0.0 and x - 0.0 go; x * 0 goes for integers only; a division becomes a multiplication only by
 * powers of two. Folding is in fold.c and empty.c, what is picked in picked.c,
 * the rebuilding in rewrite.c. Cost: one pass in id order; a rule sees operands that are simplified already and looks at most two nodes deep.
 */
#include "passes/graph/rewrite.h"

#include "ir/graph/conv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static sn_nd simplify(sn_pass_ctx *cx, sn_nd x);
static sn_nd simplify_reshape(sn_pass_ctx *cx, sn_nd x);
static sn_nd simplify_expand(sn_pass_ctx *cx, sn_nd x);

static const sn_node_rec *operand(const sn_module *m, const sn_node_rec *node, uint32_t k) {
    return sn_node_get(m, node->in[k]);
}

/* x converted and broadcast to the type, both steps simplified. */
static sn_nd as(sn_pass_ctx *cx, sn_nd x, const sn_type *t) {
    x = simplify(cx, sn_graph_cast(cx->m, x, t->dtype));
    return x.i ? simplify(cx, sn_node_as(cx->m, x, t)) : x;
}

static bool is_one(const sn_module *m, sn_ix e) {
    int64_t c;
    return sn_ix_is_const(m, e, &c) && c == 1;
}

/* ---- elementwise, one operand ---- */

typedef struct pair_rule {
    sn_op outer, inner;
    enum { GIVES_X, GIVES_INNER, GIVES_OUTER_X } result;
} pair_rule;

/* outer(inner(x)) is x, inner(x) or, for a type with a sign, outer(x). */
static const pair_rule pairs[] = {
    {SN_OP_NEG, SN_OP_NEG, GIVES_X},         {SN_OP_NOT, SN_OP_NOT, GIVES_X},
    {SN_OP_ABS, SN_OP_ABS, GIVES_INNER},     {SN_OP_ABS, SN_OP_NEG, GIVES_OUTER_X},
    {SN_OP_FLOOR, SN_OP_FLOOR, GIVES_INNER}, {SN_OP_CEIL, SN_OP_CEIL, GIVES_INNER},
    {SN_OP_ROUND, SN_OP_ROUND, GIVES_INNER}, {SN_OP_TRUNC, SN_OP_TRUNC, GIVES_INNER},
    {SN_OP_TRUNC, SN_OP_FLOOR, GIVES_INNER}, {SN_OP_TRUNC, SN_OP_CEIL, GIVES_INNER},
    {SN_OP_SIGN, SN_OP_SIGN, GIVES_INNER},   {SN_OP_RELU, SN_OP_RELU, GIVES_INNER},
};

static bool rounds(sn_op op) { return op == SN_OP_FLOOR || op == SN_OP_CEIL || op == SN_OP_ROUND || op == SN_OP_TRUNC; }

static sn_nd simplify_unary(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    if (rounds(node->op) && sn_is_integral(node->type.dtype)) return node->in[0];
    for (uint32_t i = 0; i < SN_COUNT(pairs); i++) {
        const pair_rule *p = &pairs[i];
        if (p->outer != node->op || p->inner != in->op) continue;
        if (p->result == GIVES_OUTER_X && sn_dtypes[node->type.dtype].cls == SN_CLASS_UINT) continue;
        if (p->result == GIVES_OUTER_X) return sn_graph_unary(cx->m, node->op, in->in[0]);
        return p->result == GIVES_X ? in->in[0] : node->in[0];
    }
    return x;
}

/* No integer is nan or infinite. */
static sn_nd simplify_test(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    if (!sn_is_integral(operand(cx->m, node, 0)->type.dtype)) return x;
    return sn_graph_full(cx->m, SN_BOOL, 0, node->type.shape, node->type.rank);
}

/* cast(cast(x)) skips the middle when that loses nothing. Integers wrap but floats saturate on their way to an integer,
 * so a detour over floats goes only when the last dtype holds x as well. */
static sn_nd simplify_cast(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    sn_dtype to = node->type.dtype, mid = in->type.dtype;
    if (to == mid) return node->in[0];
    if (in->op != SN_OP_CAST) return x;
    sn_dtype from = operand(cx->m, in, 0)->type.dtype;
    bool detour = sn_is_float(mid) && sn_is_integral(from) && sn_is_integral(to) && to != SN_BOOL;
    if (!sn_dtype_holds(mid, from) || (detour && !sn_dtype_holds(to, from))) return x;
    return sn_graph_cast(cx->m, in->in[0], to);
}

/* ---- elementwise, two operands ---- */

enum { ON_FLOAT = 1, ON_INT = 2, ON_BOOL = 4, ON_INTEGRAL = ON_INT | ON_BOOL, ON_ALL = 7 };

typedef struct neutral_rule {
    sn_op op;
    unsigned on;
    double value; /* of a uniform operand; 0.0 and -0.0 differ for floats */
    enum { EITHER, RIGHT } side;
    enum { GIVES_OTHER, GIVES_VALUE } result;
} neutral_rule;

static const neutral_rule neutral[] = {
    {SN_OP_ADD, ON_FLOAT, -0.0, EITHER, GIVES_OTHER},
    {SN_OP_ADD, ON_INTEGRAL, 0, EITHER, GIVES_OTHER},
    {SN_OP_SUB, ON_FLOAT, 0, RIGHT, GIVES_OTHER},
    {SN_OP_SUB, ON_INT, 0, RIGHT, GIVES_OTHER},
    {SN_OP_MUL, ON_ALL, 1, EITHER, GIVES_OTHER},
    {SN_OP_MUL, ON_INTEGRAL, 0, EITHER, GIVES_VALUE},
    {SN_OP_DIV, ON_FLOAT | ON_INT, 1, RIGHT, GIVES_OTHER},
    {SN_OP_FLOORDIV, ON_INT, 1, RIGHT, GIVES_OTHER},
    {SN_OP_POW, ON_FLOAT | ON_INT, 1, RIGHT, GIVES_OTHER},
    {SN_OP_MAXIMUM, ON_FLOAT, -INFINITY, EITHER, GIVES_OTHER},
    {SN_OP_MINIMUM, ON_FLOAT, INFINITY, EITHER, GIVES_OTHER},
    {SN_OP_AND, ON_BOOL, 1, EITHER, GIVES_OTHER},
    {SN_OP_AND, ON_INTEGRAL, 0, EITHER, GIVES_VALUE},
    {SN_OP_OR, ON_INTEGRAL, 0, EITHER, GIVES_OTHER},
    {SN_OP_OR, ON_BOOL, 1, EITHER, GIVES_VALUE},
    {SN_OP_XOR, ON_INTEGRAL, 0, EITHER, GIVES_OTHER},
    {SN_OP_SHL, ON_INT, 0, RIGHT, GIVES_OTHER},
    {SN_OP_SHR, ON_INT, 0, RIGHT, GIVES_OTHER},
};

static unsigned class_bit(sn_dtype t) { return sn_is_float(t) ? ON_FLOAT : t == SN_BOOL ? ON_BOOL : ON_INT; }

static bool value_is(sn_dtype t, double value, double wanted) {
    return value == wanted && (!sn_is_float(t) || !signbit(value) == !signbit(wanted));
}

/* op(x, y) with the uniform operand number k. */
static sn_nd drop_neutral(sn_pass_ctx *cx, sn_nd x, uint32_t k) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    sn_dtype t = node->type.dtype;
    double value;
    if (!sn_is_uniform(cx->m, node->in[k], &value)) return x;
    for (uint32_t i = 0; i < SN_COUNT(neutral); i++) {
        const neutral_rule *r = &neutral[i];
        if (r->op != node->op || !(r->on & class_bit(t)) || (r->side == RIGHT && k == 0)) continue;
        if (!value_is(t, value, r->value)) continue;
        return as(cx, node->in[r->result == GIVES_OTHER ? 1 - k : k], &node->type);
    }
    return x;
}

static sn_nd same_operands(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    bool keeps =
        node->op == SN_OP_MAXIMUM || node->op == SN_OP_MINIMUM || node->op == SN_OP_AND || node->op == SN_OP_OR;
    bool clears = (node->op == SN_OP_SUB || node->op == SN_OP_XOR) && sn_is_integral(node->type.dtype);
    if (!sn_nd_eq(node->in[0], node->in[1])) return x;
    if (keeps) return node->in[0];
    return clears ? sn_graph_full(cx->m, node->type.dtype, 0, node->type.shape, node->type.rank) : x;
}

/* The reciprocal of a power of two is exact where neither it nor its inverse is subnormal in the dtype. */
static bool exact_reciprocal(sn_dtype t, double value) {
    int exponent, limit = -sn_float_lowest(t);
    return isfinite(value) && fabs(frexp(value, &exponent)) == 0.5 && abs(exponent - 1) <= limit;
}

/* x^2 is x*x; x / 2^k is x * 2^-k. */
static sn_nd cheaper(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x);
    const sn_type *t = sn_type_of(m, node->in[1]);
    double value;
    if (t->dtype == SN_BOOL || !sn_is_uniform(m, node->in[1], &value)) return x;
    if (node->op == SN_OP_POW && value == 2)
        return as(cx, sn_graph_binary(m, SN_OP_MUL, node->in[0], node->in[0]), &node->type);
    if (node->op != SN_OP_DIV || !sn_is_float(t->dtype) || !exact_reciprocal(t->dtype, value)) return x;
    sn_nd factor = sn_graph_full(m, t->dtype, 1 / value, t->shape, t->rank);
    return sn_graph_binary(m, SN_OP_MUL, node->in[0], factor);
}

static sn_nd simplify_binary(sn_pass_ctx *cx, sn_nd x) {
    sn_nd y = same_operands(cx, x);
    if (sn_nd_eq(x, y)) y = drop_neutral(cx, x, 1);
    if (sn_nd_eq(x, y)) y = drop_neutral(cx, x, 0);
    return sn_nd_eq(x, y) ? cheaper(cx, x) : y;
}

static sn_nd simplify_where(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    double condition;
    if (sn_nd_eq(node->in[1], node->in[2])) return as(cx, node->in[1], &node->type);
    if (!sn_is_uniform(cx->m, node->in[0], &condition)) return x;
    return as(cx, node->in[condition != 0 ? 1 : 2], &node->type);
}

/* ---- reductions ---- */

/* Over axes of size 1 only, the one element is the result. */
static sn_nd simplify_reduction(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x), *in = operand(m, node, 0);
    uint32_t mask = sn_node_axes_mask(m, x);
    if (node->op == SN_OP_VAR || node->op == SN_OP_VAR_MEAN) return x;
    for (uint32_t k = 0; k < in->type.rank; k++)
        if ((mask >> k & 1) && !is_one(m, in->type.shape[k])) return x;
    if (node->op == SN_OP_ARGMAX || node->op == SN_OP_ARGMIN)
        return sn_graph_full(m, node->type.dtype, 0, node->type.shape, node->type.rank);
    sn_nd y = simplify(cx, sn_graph_cast(m, node->in[0], node->type.dtype));
    if (!y.i || sn_same_shape(sn_type_of(m, y), &node->type)) return y;
    return sn_graph_node(m, SN_OP_SQUEEZE, &y, 1, sn_node_attr(m, x, SN_ATTR_AXES), 1);
}

/* ---- views and moves ---- */

static bool keeps_order(sn_op op) { return op == SN_OP_RESHAPE || op == SN_OP_SQUEEZE || op == SN_OP_UNSQUEEZE; }

/* Axes that are joined in front of an expand and taken apart behind it, as exporters repeat heads, stay apart:
 *
 *     %0 = reshape %x shape=[4, 1, 256*64] ;  %1 = expand %0 shape=[4, 4, 256*64] ;  %y = reshape %1 shape=[2, 8, 256, 64]
 *  -> %0 = reshape %x shape=[4, 1, 256, 64] ; %1 = expand %0 shape=[4, 4, 256, 64] ; %y = reshape %1 shape=[2, 8, 256, 64] */
static sn_nd simplify_repeated(sn_pass_ctx *cx, sn_nd x) {
    sn_module *m = cx->m;
    const sn_node_rec *node = sn_node_get(m, x), *expand = operand(m, node, 0), *join = operand(m, expand, 0);
    const sn_type *t = sn_type_of(m, join->in[0]), *wide = &expand->type, *low = &join->type;
    sn_ix shape[SN_MAX_RANK], last, joined = sn_ix_const(m, 1);
    uint32_t n = 0;
    if (!low->rank || !wide->rank) return x;
    last = low->shape[low->rank - 1];
    if (!sn_ix_eq(last, wide->shape[wide->rank - 1])) return x;
    for (; n < t->rank && n < node->type.rank && !(n && sn_ix_eq(joined, last)); n++) {
        sn_ix size = t->shape[t->rank - 1 - n];
        if (!sn_ix_eq(size, node->type.shape[node->type.rank - 1 - n])) return x;
        joined = sn_ix_mul(m, joined, size);
    }
    if (n < 2 || !sn_ix_eq(joined, last) || wide->rank - 1 + n > SN_MAX_RANK) return x;
    memcpy(shape, low->shape, (low->rank - 1) * sizeof *shape);
    memcpy(shape + low->rank - 1, t->shape + t->rank - n, n * sizeof *shape);
    sn_nd y = sn_graph_reshape(m, join->in[0], shape, low->rank - 1 + n);
    if (!y.i || !(y = simplify(cx, y)).i) return y;
    memcpy(shape, wide->shape, (wide->rank - 1) * sizeof *shape);
    memcpy(shape + wide->rank - 1, t->shape + t->rank - n, n * sizeof *shape);
    return sn_graph_reshape(m, sn_graph_expand(m, y, shape, wide->rank - 1 + n), node->type.shape, node->type.rank);
}

/* Axes of size 1 that go behind an expand go in front of it. */
static sn_nd squeeze_of_expand(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *wide = operand(cx->m, node, 0);
    const sn_type *t = sn_type_of(cx->m, wide->in[0]);
    uint32_t gone = sn_node_axes_mask(cx->m, x), added = wide->type.rank - t->rank, rank = 0;
    sn_ix shape[SN_MAX_RANK];
    for (uint32_t k = 0; k < t->rank; k++)
        if (!(gone >> (added + k) & 1)) shape[rank++] = t->shape[k];
    sn_nd y = simplify_reshape(cx, sn_graph_reshape(cx->m, wide->in[0], shape, rank));
    return simplify_expand(cx, sn_graph_expand(cx->m, y, node->type.shape, node->type.rank));
}

/* Two in a row are one reshape, or nothing. Pairs of squeezes or unsqueezes stay: a reshape would say less. */
static sn_nd simplify_reshape(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    if (sn_same_shape(&node->type, &in->type)) return node->in[0];
    if (node->op == SN_OP_RESHAPE && in->op == SN_OP_EXPAND && keeps_order(operand(cx->m, in, 0)->op))
        return simplify_repeated(cx, x);
    if (node->op == SN_OP_SQUEEZE && in->op == SN_OP_EXPAND) return squeeze_of_expand(cx, x);
    if (!keeps_order(in->op)) return x;
    if (sn_same_shape(&node->type, sn_type_of(cx->m, in->in[0]))) return in->in[0];
    if (node->op != SN_OP_RESHAPE && in->op != SN_OP_RESHAPE) return x;
    return sn_graph_reshape(cx->m, in->in[0], node->type.shape, node->type.rank);
}

static sn_nd simplify_permute(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    const int64_t *perm = sn_node_attr(cx->m, x, SN_ATTR_PERM)->ints.at;
    uint32_t rank = node->type.rank;
    int64_t composed[SN_MAX_RANK];
    bool identity = true;
    for (uint32_t k = 0; k < rank; k++) identity = identity && perm[k] == k;
    if (identity) return node->in[0];
    if (in->op != SN_OP_PERMUTE) return x;
    const int64_t *inner = sn_node_attr(cx->m, node->in[0], SN_ATTR_PERM)->ints.at;
    for (uint32_t k = 0; k < rank; k++) composed[k] = inner[perm[k]];
    return sn_graph_permute(cx->m, in->in[0], composed, rank);
}

static sn_nd simplify_expand(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    if (sn_same_shape(&node->type, &in->type)) return node->in[0];
    if (in->op != SN_OP_EXPAND) return x;
    return sn_graph_expand(cx->m, in->in[0], node->type.shape, node->type.rank);
}

/* A slice along an axis of which an expand says each element again says it fewer times: exporters give scatters their
 * positions so, each row's once for each of its elements. */
static sn_nd slice_of_expand(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *wide = operand(cx->m, node, 0);
    const sn_type *t = sn_type_of(cx->m, wide->in[0]);
    int64_t axis = sn_node_int(cx->m, x, SN_ATTR_AXIS, 0), left;
    if (axis < 0) axis += node->type.rank;
    uint32_t added = node->type.rank - t->rank;
    bool again = axis < added || is_one(cx->m, t->shape[axis - added]);
    if (!again || !sn_ix_is_const(cx->m, node->type.shape[axis], &left) || left < 1) return x;
    return simplify_expand(cx, sn_graph_expand(cx->m, wide->in[0], node->type.shape, node->type.rank));
}

/* A slice that keeps the size of its axis takes all of it. */
static sn_nd simplify_slice(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    if (sn_same_shape(&node->type, &operand(cx->m, node, 0)->type)) return node->in[0];
    return operand(cx->m, node, 0)->op == SN_OP_EXPAND ? slice_of_expand(cx, x) : sn_slice_of_concat(cx, x);
}

static sn_nd simplify_select(sn_pass_ctx *cx, sn_nd x) { return sn_select_as_slice(cx, x, simplify); }

/* Windows of one element, at every position. */
static sn_nd simplify_unfold(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    int64_t last = node->type.rank - 1;
    bool trivial = sn_node_int(cx->m, x, SN_ATTR_SIZE, 0) == 1 && sn_node_int(cx->m, x, SN_ATTR_STEP, 1) == 1;
    return trivial ? sn_graph_unsqueeze(cx->m, node->in[0], &last, 1) : x;
}

static bool same_ints(const sn_attr *a, const sn_attr *b) {
    return a->ints.n == b->ints.n && (!a->ints.n || !memcmp(a->ints.at, b->ints.at, a->ints.n * sizeof *a->ints.at));
}

static sn_nd simplify_flip(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    const sn_attr *axes = sn_node_attr(cx->m, x, SN_ATTR_AXES);
    bool moves = false;
    for (uint32_t k = 0; k < axes->ints.n; k++) moves = moves || !is_one(cx->m, node->type.shape[axes->ints.at[k]]);
    if (!moves) return node->in[0];
    if (in->op != SN_OP_FLIP || !same_ints(axes, sn_node_attr(cx->m, node->in[0], SN_ATTR_AXES))) return x;
    return in->in[0];
}

/* Two in a row are one; what reads nothing needs no memory. */
static sn_nd simplify_copy(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    return in->op == SN_OP_COPY || in->op == SN_OP_FULL || in->op == SN_OP_IOTA ? node->in[0] : x;
}

static bool all_zero(const sn_attr *a) {
    for (uint32_t k = 0; k < a->ints.n; k++)
        if (a->ints.at[k] != 0) return false;
    return true;
}

static sn_nd simplify_pad(sn_pass_ctx *cx, sn_nd x) {
    bool nothing = all_zero(sn_node_attr(cx->m, x, SN_ATTR_LOW)) && all_zero(sn_node_attr(cx->m, x, SN_ATTR_HIGH));
    return nothing ? sn_node_get(cx->m, x)->in[0] : x;
}

/* Zeros around the image of a convolution are its padding. */
static bool add_padding(sn_conv_geometry *c, const sn_module *m, sn_nd pad) {
    const int64_t *low = sn_node_attr(m, pad, SN_ATTR_LOW)->ints.at,
                  *high = sn_node_attr(m, pad, SN_ATTR_HIGH)->ints.at;
    double value = sn_node_float(m, pad, SN_ATTR_VALUE, 0);
    if (value != 0 || signbit(value) || low[0] || high[0] || low[1] || high[1]) return false;
    for (uint32_t k = 0; k < c->n; k++) {
        int64_t before = low[2 + k], behind = high[2 + k];
        if (before < 0 || behind < 0 || before > SN_CONV_MOST / 2 || behind > SN_CONV_MOST / 2) return false;
        if ((before || behind) && c->input_dilation[k] != 1) return false;
        c->low[k] += before, c->high[k] += behind;
        if (c->low[k] > SN_CONV_MOST || c->high[k] > SN_CONV_MOST) return false;
    }
    return true;
}

static sn_nd simplify_conv(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x), *in = operand(cx->m, node, 0);
    sn_conv_geometry c = sn_node_conv(cx->m, x);
    sn_attr more[SN_N_ATTRS];
    uint32_t n = 0;
    if (in->op != SN_OP_PAD || sn_node_attr(cx->m, x, SN_ATTR_SCHEDULE) || !add_padding(&c, cx->m, node->in[0]))
        return x;
    const sn_attr *precision = sn_node_attr(cx->m, x, SN_ATTR_PRECISION);
    if (precision) more[n++] = *precision;
    return sn_graph_conv(cx->m, in->in[0], node->in[1], &c, (sn_conv_more){more, n});
}

static sn_nd simplify_concat(sn_pass_ctx *cx, sn_nd x) {
    const sn_node_rec *node = sn_node_get(cx->m, x);
    return node->n_in == 1 ? node->in[0] : x;
}

/* ---- dispatch ---- */

static const sn_node_rule rule_of_op[SN_N_OPS] = {
    [SN_OP_RELU] = simplify_unary,          [SN_OP_CAST] = simplify_cast,       [SN_OP_WHERE] = simplify_where,
    [SN_OP_RESHAPE] = simplify_reshape,     [SN_OP_SQUEEZE] = simplify_reshape, [SN_OP_UNSQUEEZE] = simplify_reshape,
    [SN_OP_PERMUTE] = simplify_permute,     [SN_OP_EXPAND] = simplify_expand,   [SN_OP_SLICE] = simplify_slice,
    [SN_OP_FLIP] = simplify_flip,           [SN_OP_PAD] = simplify_pad,         [SN_OP_CONCAT] = simplify_concat,
    [SN_OP_CONV] = simplify_conv,           [SN_OP_UNFOLD] = simplify_unfold,   [SN_OP_COPY] = simplify_copy,
    [SN_OP_INDEX_SELECT] = simplify_select,
};

static const sn_node_rule rule_of_class[] = {
    [SN_OPS_UNARY] = simplify_unary, [SN_OPS_BINARY] = simplify_binary,
    [SN_OPS_TEST] = simplify_test,   [SN_OPS_REDUCE] = simplify_reduction,
    [SN_OPS_REPEAT] = NULL,
};

/* Until no rule fires. Each one leaves fewer nodes, or a cheaper operation that no rule turns back. */
static sn_nd simplify(sn_pass_ctx *cx, sn_nd x) {
    for (sn_nd y = x; x.i; x = y) {
        const sn_node_rec *node = sn_node_get(cx->m, x);
        sn_node_rule rule = rule_of_op[node->op] ? rule_of_op[node->op] : rule_of_class[sn_ops[node->op].cls];
        y = sn_fold_empty(cx, x);
        if (sn_nd_eq(x, y)) y = sn_fold_literals(cx, x);
        if (sn_nd_eq(x, y) && rule) y = rule(cx, x);
        if (sn_nd_eq(x, y)) return x;
    }
    return x;
}

sn_status sn_pass_simplify(sn_pass_ctx *cx, bool *changed) { return sn_graph_rewrite(cx, simplify, changed); }
