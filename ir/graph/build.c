/* build.c: shorthands over sn_graph_node (ir/graph/build.h). Each packs its arguments into attributes; shape and
 * dtype rules are in rules*.c.
 */
#include "ir/graph/build.h"

#include "ir/index/ix.h"

static sn_attr int_attr(sn_attr_id id, int64_t i) { return (sn_attr){.id = id, .i = i}; }
static sn_attr list_attr(sn_attr_id id, const int64_t *at, uint32_t n) { return (sn_attr){.id = id, .ints = {at, n}}; }
static sn_attr sizes_attr(const sn_ix *at, uint32_t n) { return (sn_attr){.id = SN_ATTR_SHAPE, .shape = {at, n}}; }

static sn_nd node(sn_module *m, sn_op op, const sn_nd *in, uint32_t n_in, const sn_attr *attrs, uint32_t n_attrs) {
    for (uint32_t k = 0; k < n_in; k++)
        if (!in[k].i) return (sn_nd){0};
    return sn_graph_node(m, op, in, n_in, attrs, n_attrs);
}

const sn_type *sn_graph_type(const sn_module *m, sn_nd x) {
    static const sn_type number = {.dtype = SN_F32};
    return x.i ? &sn_node_get(m, x)->type : &number;
}

/* ---- sources ---- */

sn_nd sn_graph_number(sn_module *m, sn_nd x, double value) {
    return x.i ? sn_graph_scalar(m, sn_graph_type(m, x)->dtype, value) : (sn_nd){0};
}

static sn_nd constant(sn_module *m, sn_dtype dtype, sn_attr values, const int64_t *shape, uint32_t rank) {
    sn_ix sizes[SN_MAX_RANK];
    if (rank > SN_MAX_RANK) {
        sn_fail(m->env, SN_ERROR_UNSUPPORTED, "rank %u; at most %d axes", rank, SN_MAX_RANK);
        return (sn_nd){0};
    }
    for (uint32_t k = 0; k < rank; k++) {
        sizes[k] = sn_ix_const(m, shape[k]);
        values.numbers.n *= (uint64_t)shape[k];
    }
    sn_attr attrs[] = {values, int_attr(SN_ATTR_DTYPE, dtype), sizes_attr(sizes, rank)};
    return sn_graph_node(m, SN_OP_CONSTANT, NULL, 0, attrs, 3);
}

sn_nd sn_graph_ints(sn_module *m, sn_dtype dtype, const int64_t *at, const int64_t *shape, uint32_t rank) {
    return constant(m, dtype, (sn_attr){.id = SN_ATTR_VALUES, .numbers = {NULL, at, 1}}, shape, rank);
}

sn_nd sn_graph_floats(sn_module *m, sn_dtype dtype, const double *at, const int64_t *shape, uint32_t rank) {
    return constant(m, dtype, (sn_attr){.id = SN_ATTR_VALUES, .numbers = {at, NULL, 1}}, shape, rank);
}

sn_nd sn_graph_iota(sn_module *m, sn_dtype dtype, int64_t axis, const sn_ix *shape, uint32_t rank) {
    sn_attr attrs[] = {int_attr(SN_ATTR_AXIS, axis), int_attr(SN_ATTR_DTYPE, dtype), sizes_attr(shape, rank)};
    return sn_graph_node(m, SN_OP_IOTA, NULL, 0, attrs, 3);
}

/* ---- elementwise ---- */

sn_nd sn_graph_where(sn_module *m, sn_nd condition, sn_nd x, sn_nd y) {
    sn_nd in[] = {condition, x, y};
    return node(m, SN_OP_WHERE, in, 3, NULL, 0);
}

sn_nd sn_graph_with(sn_module *m, sn_op op, sn_nd x, double value) {
    sn_nd in[] = {x, sn_graph_number(m, x, value)};
    return node(m, op, in, 2, NULL, 0);
}

sn_nd sn_graph_widen(sn_module *m, sn_nd x) {
    return sn_graph_cast(m, x, sn_compute_dtype(sn_graph_type(m, x)->dtype));
}

sn_nd sn_graph_add(sn_module *m, sn_nd x, sn_nd y) { return sn_graph_binary(m, SN_OP_ADD, x, y); }
sn_nd sn_graph_sub(sn_module *m, sn_nd x, sn_nd y) { return sn_graph_binary(m, SN_OP_SUB, x, y); }
sn_nd sn_graph_mul(sn_module *m, sn_nd x, sn_nd y) { return sn_graph_binary(m, SN_OP_MUL, x, y); }
sn_nd sn_graph_div(sn_module *m, sn_nd x, sn_nd y) { return sn_graph_binary(m, SN_OP_DIV, x, y); }

sn_nd sn_graph_with_size(sn_module *m, sn_op op, sn_nd x, sn_ix size) {
    int64_t number;
    if (sn_ix_is_const(m, size, &number)) return sn_graph_with(m, op, x, (double)number);
    sn_nd in[] = {x, sn_graph_reshape(m, sn_graph_sizes(m, &size, 1), NULL, 0)};
    return node(m, op, in, 2, NULL, 0);
}

/* ---- shapes ---- */

sn_nd sn_graph_reshape_to(sn_module *m, sn_nd x, const int64_t *shape, uint32_t rank) {
    sn_ix sizes[SN_MAX_RANK];
    if (!x.i || rank > SN_MAX_RANK) return (sn_nd){0};
    for (uint32_t k = 0; k < rank; k++) sizes[k] = sn_ix_const(m, shape[k]);
    return sn_graph_reshape(m, x, sizes, rank);
}

sn_nd sn_graph_squeeze(sn_module *m, sn_nd x, const int64_t *axes, uint32_t n) {
    sn_attr attr = list_attr(SN_ATTR_AXES, axes, n);
    return node(m, SN_OP_SQUEEZE, &x, 1, &attr, 1);
}

sn_nd sn_graph_align(sn_module *m, sn_nd x, uint32_t axis, uint32_t rank) {
    int64_t axes[SN_MAX_RANK];
    uint32_t own = sn_graph_type(m, x)->rank, n = 0;
    for (uint32_t k = axis + own; k < rank && k < SN_MAX_RANK; k++) axes[n++] = k - axis;
    return n ? sn_graph_unsqueeze(m, x, axes, n) : x;
}

sn_nd sn_graph_slice(sn_module *m, sn_nd x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
    if (step < 0) { /* position p is position ~p of the reversed axis: -1 - p counts from the other end */
        x = sn_graph_flip(m, x, axis);
        start = ~start, stop = ~stop, step = step == INT64_MIN ? INT64_MAX : -step;
    }
    sn_attr attrs[] = {int_attr(SN_ATTR_AXIS, axis), int_attr(SN_ATTR_START, start), int_attr(SN_ATTR_STOP, stop),
                       int_attr(SN_ATTR_STEP, step)};
    return node(m, SN_OP_SLICE, &x, 1, attrs, step == 1 ? 3 : 4);
}

sn_nd sn_graph_unfold(sn_module *m, sn_nd x, int64_t axis, int64_t size, int64_t step, int64_t dilation) {
    sn_attr attrs[4] = {int_attr(SN_ATTR_AXIS, axis), int_attr(SN_ATTR_SIZE, size)};
    uint32_t n = 2;
    if (step != 1) attrs[n++] = int_attr(SN_ATTR_STEP, step);
    if (dilation != 1) attrs[n++] = list_attr(SN_ATTR_DILATION, &dilation, 1);
    return node(m, SN_OP_UNFOLD, &x, 1, attrs, n);
}

sn_nd sn_graph_pick(sn_module *m, sn_nd x, int64_t axis, int64_t at) {
    return sn_graph_squeeze(m, sn_graph_slice(m, x, axis, at, at == -1 ? INT64_MAX : at + 1, 1), &axis, 1);
}

sn_nd sn_graph_flip(sn_module *m, sn_nd x, int64_t axis) {
    sn_attr attr = list_attr(SN_ATTR_AXES, &axis, 1);
    return node(m, SN_OP_FLIP, &x, 1, &attr, 1);
}

/* What x is as narrower elements than its own, where it is views, or pads of zeros, of something that was widened;
 * none: it is not. */
static sn_nd narrowed(sn_module *m, sn_nd x) {
    const sn_node_rec *n = x.i ? sn_node_get(m, x) : NULL;
    if (!n || n->n_in != 1) return (sn_nd){0};
    if (n->op == SN_OP_CAST)
        return sn_dtype_widens(sn_graph_type(m, n->in[0])->dtype, n->type.dtype) ? n->in[0] : (sn_nd){0};
    bool zeros = n->op == SN_OP_PAD && sn_node_float(m, x, SN_ATTR_VALUE, 0) == 0;
    if (!zeros && sn_ops[n->op].cls != SN_OPS_VIEW) return (sn_nd){0};
    sn_nd in = narrowed(m, n->in[0]);
    return in.i ? node(m, n->op, &in, 1, n->attrs, n->n_attrs) : in;
}

sn_nd sn_graph_copied(sn_module *m, sn_nd x) {
    sn_nd narrow = narrowed(m, x);
    if (narrow.i) return sn_graph_cast(m, sn_graph_copied(m, narrow), sn_graph_type(m, x)->dtype);
    return node(m, SN_OP_COPY, &x, 1, NULL, 0);
}

sn_nd sn_graph_pad(sn_module *m, sn_nd x, const int64_t *low, const int64_t *high, double value) {
    uint32_t rank = sn_graph_type(m, x)->rank;
    sn_attr attrs[] = {
        list_attr(SN_ATTR_LOW, low, rank), list_attr(SN_ATTR_HIGH, high, rank), {.id = SN_ATTR_VALUE, .f = value}};
    return node(m, SN_OP_PAD, &x, 1, attrs, 3);
}

sn_nd sn_graph_concat(sn_module *m, const sn_nd *in, uint32_t n, int64_t axis) {
    sn_attr attr = int_attr(SN_ATTR_AXIS, axis);
    return n == 1 ? in[0] : node(m, SN_OP_CONCAT, in, n, &attr, 1);
}

sn_nd sn_graph_move_axis(sn_module *m, sn_nd x, uint32_t from, uint32_t to) {
    int64_t perm[SN_MAX_RANK];
    uint32_t rank = sn_graph_type(m, x)->rank;
    for (uint32_t k = 0, other = 0; k < rank; k++) {
        if (other == from) other++;
        perm[k] = k == to ? from : other++;
    }
    return x.i ? sn_graph_permute(m, x, perm, rank) : x;
}

/* ---- the rest ---- */

sn_nd sn_graph_gather(sn_module *m, sn_nd x, sn_nd index, int64_t axis) {
    sn_nd in[] = {x, index};
    sn_attr attr = int_attr(SN_ATTR_AXIS, axis);
    return node(m, SN_OP_GATHER, in, 2, &attr, 1);
}

sn_nd sn_graph_index_select(sn_module *m, sn_nd x, sn_nd index, int64_t axis) {
    sn_nd in[] = {x, index};
    sn_attr attr = int_attr(SN_ATTR_AXIS, axis);
    return node(m, SN_OP_INDEX_SELECT, in, 2, &attr, 1);
}

sn_nd sn_graph_scatter(sn_module *m, sn_op op, sn_nd x, sn_nd index, sn_nd updates) {
    sn_nd in[] = {x, index, updates};
    return node(m, op, in, 3, NULL, 0);
}

sn_nd sn_graph_topk(sn_module *m, sn_nd x, int64_t k, int64_t axis, bool largest) {
    sn_attr attrs[] = {int_attr(SN_ATTR_K, k), int_attr(SN_ATTR_AXIS, axis), int_attr(SN_ATTR_LARGEST, 0)};
    return node(m, SN_OP_TOPK, &x, 1, attrs, largest ? 2 : 3);
}

sn_nd sn_graph_scan(sn_module *m, sn_op op, sn_nd x, int64_t axis, bool exclusive, bool reverse) {
    sn_attr attrs[3] = {int_attr(SN_ATTR_AXIS, axis)};
    uint32_t n = 1;
    if (exclusive) attrs[n++] = int_attr(SN_ATTR_EXCLUSIVE, 1);
    if (reverse) attrs[n++] = int_attr(SN_ATTR_REVERSE, 1);
    return node(m, op, &x, 1, attrs, n);
}

sn_nd sn_graph_along(sn_module *m, sn_op op, sn_nd x, int64_t axis) {
    sn_attr attr = int_attr(SN_ATTR_AXIS, axis);
    return node(m, op, &x, 1, &attr, 1);
}

sn_nd sn_graph_matmul(sn_module *m, sn_nd x, sn_nd y) {
    sn_nd in[] = {x, y};
    return node(m, SN_OP_MATMUL, in, 2, NULL, 0);
}
