/* ops_index.c: operators that read elements at positions which are themselves elements: gathers, one-hot rows, reversed sequences,
 * the largest elements. Negative positions count from the end.
 */
#include "frontend/onnx/import.h"

/* Positions below 0 count from the end of an axis of that size. */
static sn_nd wrapped(sn_module *m, sn_nd at, sn_ix size) {
    return sn_graph_where(m, sn_graph_with(m, SN_OP_LT, at, 0), sn_graph_with_size(m, SN_OP_ADD, at, size), at);
}

sn_status sn_onnx_gather(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0), at = sn_onnx_in(c, 1);
    return sn_onnx_done(c, sn_graph_index_select(c->m, x, at, sn_onnx_attr_int(c, "axis", 0)));
}

sn_status sn_onnx_gather_elements(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0), at = sn_onnx_in(c, 1);
    return sn_onnx_done(c, sn_graph_gather(c->m, x, at, sn_onnx_attr_int(c, "axis", 0)));
}

/* Axes batch .. batch+depth-1 of x become one, which the tuples on the last axis of `at` are positions of:
 *     x[B.., n0, n1, R..] -> [B*n0*n1, R]      at[B.., M.., 2] -> (b*n0 + at[.., 0]) * n1 + at[.., 1] */
sn_status sn_onnx_gather_nd(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), at = sn_graph_cast(m, sn_onnx_in(c, 1), SN_I64);
    const sn_type *t = sn_graph_type(m, x), *ti = sn_graph_type(m, at);
    int64_t depth, batch = sn_onnx_attr_int(c, "batch_dims", 0);
    if (ti->rank < 1 || !sn_ix_is_const(m, ti->shape[ti->rank - 1], &depth))
        return sn_onnx_fail(c, "the last axis of the indices has no number as size");
    if (batch < 0 || batch >= ti->rank || depth < 1 || batch + depth > t->rank)
        return sn_onnx_fail(c, "positions on %lld axes after %lld batch axes, of rank %u", (long long)depth,
                            (long long)batch, t->rank);
    uint32_t b = (uint32_t)batch, end = (uint32_t)(batch + depth);
    sn_ix groups = sn_ix_product(m, t->shape, b), mid = sn_ix_product(m, ti->shape + b, ti->rank - 1 - b);
    sn_ix rest = sn_ix_product(m, t->shape + end, t->rank - end), shape[2] = {groups, mid};
    sn_nd flat = sn_graph_iota(m, SN_I64, 0, shape, 2);
    for (uint32_t k = 0; k < depth && m->env->status == SN_OK; k++) {
        sn_nd one = sn_graph_reshape(m, sn_graph_pick(m, at, -1, k), shape, 2);
        flat = sn_graph_with_size(m, SN_OP_MUL, flat, t->shape[b + k]);
        flat = sn_graph_binary(m, SN_OP_ADD, flat, wrapped(m, one, t->shape[b + k]));
    }
    sn_ix rows[] = {sn_ix_product(m, t->shape, end), rest}, out[2 * SN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t k = 0; k + 1 < ti->rank; k++) out[rank++] = k < b ? t->shape[k] : ti->shape[k];
    for (uint32_t k = end; k < t->rank; k++) out[rank++] = t->shape[k];
    sn_nd y = sn_graph_index_select(m, sn_graph_reshape(m, x, rows, 2), flat, 0);
    return sn_onnx_done(c, sn_graph_reshape(m, y, out, rank));
}

/* Sizes of 1 but for one axis. */
static void only_axis(sn_ix *shape, sn_module *m, uint32_t rank, uint32_t axis, sn_ix size) {
    for (uint32_t k = 0; k < rank; k++) shape[k] = k == axis ? size : sn_ix_const(m, 1);
}

/* The number of classes may be of any type. */
static sn_status one_hot_depth(sn_ix *out, sn_onnx_call *c) {
    const sn_array *a;
    sn_ix sizes[SN_KNOWN_MAX];
    uint32_t n = 1;
    if (!sn_is_float(sn_graph_type(c->m, sn_onnx_in(c, 1))->dtype)) {
        SN_TRY(sn_onnx_sizes(sizes, &n, c, 1));
        *out = sizes[0];
    } else {
        SN_TRY(sn_onnx_array(&a, c, sn_onnx_in(c, 1)));
        n = (uint32_t)a->numel;
        *out = sn_ix_const(c->m, n == 1 ? (int64_t)a->f[0] : 0);
    }
    return n == 1 ? SN_OK : sn_onnx_fail(c, "the depth has %u elements; one is wanted", n);
}

/* `on` where the position along the new axis is the index, `off` elsewhere: everywhere, for an index beyond the depth. */
sn_status sn_onnx_one_hot(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd at = sn_graph_cast(m, sn_onnx_in(c, 0), SN_I64), values = sn_onnx_in(c, 2);
    uint32_t axis, rank = sn_graph_type(m, at)->rank + 1;
    sn_ix depth, shape[SN_MAX_RANK + 1];
    SN_TRY(one_hot_depth(&depth, c));
    SN_TRY(sn_onnx_axis(&axis, c, sn_onnx_attr_int(c, "axis", -1), rank));
    only_axis(shape, m, rank, axis, depth);
    at = sn_graph_unsqueeze(m, wrapped(m, at, depth), (int64_t[]){axis}, 1);
    sn_nd is_on = sn_graph_binary(m, SN_OP_EQ, at, sn_graph_iota(m, SN_I64, axis, shape, rank));
    return sn_onnx_done(c, sn_graph_where(m, is_on, sn_graph_pick(m, values, 0, 1), sn_graph_pick(m, values, 0, 0)));
}

/* Element t of a sequence of length n is element n-1-t; behind its end nothing moves. */
sn_status sn_onnx_reverse_sequence(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0), n = sn_graph_cast(m, sn_onnx_in(c, 1), SN_I64);
    const sn_type *t = sn_graph_type(m, x);
    sn_ix shape[SN_MAX_RANK];
    uint32_t time, batch;
    SN_TRY(sn_onnx_axis(&time, c, sn_onnx_attr_int(c, "time_axis", 0), t->rank));
    SN_TRY(sn_onnx_axis(&batch, c, sn_onnx_attr_int(c, "batch_axis", 1), t->rank));
    only_axis(shape, m, t->rank, batch, t->shape[batch]);
    n = sn_graph_reshape(m, n, shape, t->rank);
    only_axis(shape, m, t->rank, time, t->shape[time]);
    sn_nd step = sn_graph_iota(m, SN_I64, time, shape, t->rank);
    sn_nd mirrored = sn_graph_with(m, SN_OP_SUB, sn_graph_binary(m, SN_OP_SUB, n, step), 1);
    sn_nd from = sn_graph_where(m, sn_graph_binary(m, SN_OP_LT, step, n), mirrored, step);
    return sn_onnx_done(c, sn_graph_gather(m, x, sn_graph_expand(m, from, t->shape, t->rank), time));
}

/* How many is an attribute before opset 10. Sorted or not: they come sorted. */
sn_status sn_onnx_topk(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    int64_t k = sn_onnx_attr_int(c, "k", 0), axis = sn_onnx_attr_int(c, "axis", -1);
    bool largest = sn_onnx_attr_int(c, "largest", 1);
    sn_onnx_attr_ignore(c, "sorted");
    if (c->opset >= 10) SN_TRY(sn_onnx_int(&k, c, 1));
    sn_nd both = sn_graph_topk(c->m, x, k, axis, largest);
    if (!both.i) return c->m->env->status;
    sn_onnx_out(c, 1, sn_graph_project(c->m, both, 1));
    return sn_onnx_done(c, sn_graph_project(c->m, both, 0));
}
