/* ops_shape.c: operators that change shapes, tell them, or make tensors of a given one. Sizes may be names nearly
 * everywhere.
 */
#include "frontend/onnx/import.h"

#include <math.h>
#include <stdlib.h>

sn_status sn_onnx_identity(sn_onnx_call *c) {
    if (c->n_in) sn_onnx_out_value(c, 0, c->in[0]);
    return SN_OK;
}

/* A list of numbers as a tensor of rank 1, one number as a tensor of rank 0. */
static sn_nd numbers(sn_onnx_call *c) {
    const int64_t *ints;
    const float *floats;
    uint32_t n;
    if (sn_onnx_attr_ints(&ints, &n, c, "value_ints")) return sn_graph_ints(c->m, SN_I64, ints, (int64_t[]){n}, 1);
    if (sn_onnx_attr_floats(&floats, &n, c, "value_floats")) {
        double *values = SN_NEWN(c->arena, double, n + 1);
        for (uint32_t k = 0; k < n; k++) values[k] = (double)floats[k];
        return sn_graph_floats(c->m, SN_F32, values, (int64_t[]){n}, 1);
    }
    int64_t i = sn_onnx_attr_int(c, "value_int", 0);
    double f = sn_onnx_attr_float(c, "value_float", 0);
    if (sn_onnx_has_attr(c, "value_int")) return sn_graph_ints(c->m, SN_I64, &i, NULL, 0);
    if (sn_onnx_has_attr(c, "value_float")) return sn_graph_floats(c->m, SN_F32, &f, NULL, 0);
    sn_onnx_fail(c, "a constant without a tensor or numbers");
    return (sn_nd){0};
}

sn_status sn_onnx_constant_node(sn_onnx_call *c) {
    const sn_pb_tensor *t = sn_onnx_attr_tensor(c, "value");
    if (t && t->data_type == SN_ONNX_STRING && c->n_out) return sn_onnx_texts(&c->out[0], c->m->env, c->arena, t);
    sn_onnx_value v = t ? sn_onnx_constant(c, t) : sn_onnx_tensor(numbers(c));
    if (v.node.i) sn_onnx_out_value(c, 0, v);
    return c->m->env->status;
}

/* ---- the same elements in another shape ---- */

/* The shape that a Reshape names: an attribute before opset 5, an operand since. */
static sn_status wanted_shape(sn_ix *shape, uint32_t *n, sn_onnx_call *c) {
    const int64_t *at;
    if (c->opset >= 5) return sn_onnx_sizes(shape, n, c, 1);
    sn_onnx_attr_ints(&at, n, c, "shape");
    sn_onnx_attr_ignore(c, "consumed_inputs");
    for (uint32_t k = 0; k < *n && k < SN_KNOWN_MAX; k++) shape[k] = sn_ix_const(c->m, at[k]);
    return SN_OK;
}

/* Size 0 in the shape: that of x, unless allowzero says that it is 0. */
sn_status sn_onnx_reshape(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    sn_ix shape[SN_KNOWN_MAX];
    uint32_t n;
    bool allow_zero = sn_onnx_attr_int(c, "allowzero", 0);
    SN_TRY(wanted_shape(shape, &n, c));
    const sn_type *t = sn_graph_type(c->m, x);
    if (n > SN_MAX_RANK) return sn_onnx_fail(c, "rank %u; at most %d axes", n, SN_MAX_RANK);
    for (uint32_t k = 0; k < n; k++) {
        int64_t size;
        bool copied = sn_ix_is_const(c->m, shape[k], &size) && size == 0 && !allow_zero && k < t->rank;
        if (copied) shape[k] = t->shape[k];
    }
    return sn_onnx_done(c, x.i ? sn_graph_reshape(c->m, x, shape, n) : x);
}

/* The axes before `axis` as one, and the rest as another. */
sn_status sn_onnx_flatten(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(c->m, x);
    int64_t given = sn_onnx_attr_int(c, "axis", 1), axis = given < 0 ? given + t->rank : given;
    if (axis < 0 || axis > t->rank)
        return sn_onnx_fail(c, "axis %lld of a tensor of rank %u", (long long)given, t->rank);
    sn_ix shape[] = {sn_ix_product(c->m, t->shape, (uint32_t)axis),
                     sn_ix_product(c->m, t->shape + axis, t->rank - (uint32_t)axis)};
    return sn_onnx_done(c, x.i ? sn_graph_reshape(c->m, x, shape, 2) : x);
}

/* Without axes all those go that have size 1. */
sn_status sn_onnx_squeeze(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(c->m, x);
    const int64_t *axes;
    int64_t ones[SN_MAX_RANK], size;
    uint32_t n;
    if (!sn_onnx_list(&axes, &n, c, "axes", 1)) {
        axes = ones;
        for (uint32_t k = 0; k < t->rank; k++)
            if (sn_ix_is_const(c->m, t->shape[k], &size) && size == 1) ones[n++] = k;
    }
    return sn_onnx_done(c, n ? sn_graph_squeeze(c->m, x, axes, n) : x);
}

sn_status sn_onnx_unsqueeze(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const int64_t *axes;
    uint32_t n;
    if (!sn_onnx_list(&axes, &n, c, "axes", 1)) return sn_onnx_fail(c, "axes are missing");
    return sn_onnx_done(c, n && x.i ? sn_graph_unsqueeze(c->m, x, axes, n) : x);
}

sn_status sn_onnx_transpose(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const int64_t *perm;
    uint32_t n, rank = sn_graph_type(c->m, x)->rank;
    int64_t reversed[SN_MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) reversed[k] = rank - 1 - k;
    bool given = sn_onnx_attr_ints(&perm, &n, c, "perm");
    return sn_onnx_done(c, x.i ? sn_graph_permute(c->m, x, given ? perm : reversed, given ? n : rank) : x);
}

/* The operand and the shape that it is expanded to broadcast each other. */
sn_status sn_onnx_expand(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(c->m, x);
    sn_ix shape[SN_KNOWN_MAX];
    sn_type want = {.dtype = t->dtype}, out;
    SN_TRY(sn_onnx_sizes(shape, &want.rank, c, 1));
    if (want.rank > SN_MAX_RANK) return sn_onnx_fail(c, "rank %u; at most %d axes", want.rank, SN_MAX_RANK);
    for (uint32_t k = 0; k < want.rank; k++) want.shape[k] = shape[k];
    SN_TRY(sn_broadcast(&out, c->m, "expand", t, &want));
    return sn_onnx_done(c, x.i ? sn_graph_expand(c->m, x, out.shape, out.rank) : x);
}

/* ---- tellers of shapes ---- */

static int64_t clamped(int64_t at, int64_t rank) {
    if (at < 0) at += rank;
    return at < 0 ? 0 : at > rank ? rank : at;
}

sn_status sn_onnx_shape_of(sn_onnx_call *c) {
    const sn_type *t = sn_graph_type(c->m, sn_onnx_in(c, 0));
    int64_t start = clamped(sn_onnx_attr_int(c, "start", 0), t->rank),
            end = clamped(sn_onnx_attr_int(c, "end", t->rank), t->rank);
    return sn_onnx_done(c, sn_graph_sizes(c->m, t->shape + start, end > start ? (uint32_t)(end - start) : 0));
}

sn_status sn_onnx_size(sn_onnx_call *c) {
    sn_ix numel = sn_type_numel(c->m, sn_graph_type(c->m, sn_onnx_in(c, 0)));
    return sn_onnx_done(c, sn_graph_reshape(c->m, sn_graph_sizes(c->m, &numel, 1), NULL, 0));
}

/* ---- tensors of a given shape ---- */

/* One element everywhere. It is expanded where a double does not hold it: the largest i64. */
static sn_nd filled(sn_onnx_call *c, sn_nd element, const sn_ix *shape, uint32_t rank) {
    const sn_array *a;
    if (sn_onnx_array(&a, c, element) != SN_OK) return (sn_nd){0};
    if (a->numel != 1) {
        sn_onnx_fail(c, "the value has %lld elements; one is wanted", (long long)a->numel);
        return (sn_nd){0};
    }
    if (sn_is_float(a->dtype)) return sn_graph_full(c->m, a->dtype, a->f[0], shape, rank);
    if (llabs(a->i[0]) <= (int64_t)1 << 53) return sn_graph_full(c->m, a->dtype, (double)a->i[0], shape, rank);
    return sn_graph_expand(c->m, sn_graph_reshape(c->m, element, NULL, 0), shape, rank);
}

sn_status sn_onnx_constant_of_shape(sn_onnx_call *c) {
    const sn_pb_tensor *value = sn_onnx_attr_tensor(c, "value");
    sn_onnx_value element = value ? sn_onnx_constant(c, value) : sn_onnx_tensor(sn_graph_scalar(c->m, SN_F32, 0));
    sn_ix shape[SN_KNOWN_MAX];
    uint32_t n;
    SN_TRY(sn_onnx_sizes(shape, &n, c, 0));
    if (n > SN_MAX_RANK) return sn_onnx_fail(c, "rank %u; at most %d axes", n, SN_MAX_RANK);
    element.node = filled(c, element.node, shape, n);
    if (element.node.i) sn_onnx_out_value(c, 0, element);
    return c->m->env->status;
}

/* Ones where column - row is k. */
sn_status sn_onnx_eye_like(sn_onnx_call *c) {
    sn_module *m = c->m;
    const sn_type *t = sn_graph_type(m, sn_onnx_in(c, 0));
    int64_t k = sn_onnx_attr_int(c, "k", 0);
    sn_dtype dtype = sn_onnx_attr_dtype(c, "dtype", t->dtype);
    if (t->rank != 2) return sn_onnx_fail(c, "an operand of rank %u; 2 is wanted", t->rank);
    sn_nd row = sn_graph_iota(m, SN_I64, 0, t->shape, 2), column = sn_graph_iota(m, SN_I64, 1, t->shape, 2);
    sn_nd on = sn_graph_binary(m, SN_OP_EQ, sn_graph_with(m, SN_OP_ADD, row, (double)k), column);
    return sn_onnx_done(c, sn_graph_cast(m, on, dtype));
}

/* Is operand k a float that was a size? */
static bool is_size_in_floats(sn_ix *size, sn_onnx_call *c, uint32_t k) {
    sn_module *m = c->m;
    const sn_node_rec *n = sn_node_get(m, sn_onnx_in(c, k));
    if (n->op != SN_OP_CAST || sn_is_float(sn_graph_type(m, n->in[0])->dtype) || n->type.rank) return false;
    bool is = sn_graph_known_sizes(size, m, n->in[0], c->im->arrays.at, c->im->arrays.n) == SN_OK;
    sn_env_clear(m->env);
    return is;
}

/* The same of floats: 0, 1, ... before a size that is no number is what counts positions. */
static sn_status float_range_count(sn_ix *out, sn_onnx_call *c) {
    const sn_array *at[3];
    for (uint32_t k = 0; k < 3; k++) {
        if (k == 1 && !sn_onnx_try_array(&at[1], c, sn_onnx_in(c, 1)) && is_size_in_floats(out, c, 1)) continue;
        SN_TRY(sn_onnx_array(&at[k], c, sn_onnx_in(c, k)));
        if (at[k]->numel != 1 || !at[k]->f) return sn_onnx_fail(c, "operand %u is no number", k + 1);
    }
    if (!at[1]) {
        if (at[0]->f[0] == 0 && at[2]->f[0] == 1) return SN_OK;
        SN_TRY(sn_onnx_array(&at[1], c, sn_onnx_in(c, 1))); /* for its reason */
    }
    double count = ceil((at[1]->f[0] - at[0]->f[0]) / at[2]->f[0]);
    if (!(count < 0x1p53)) return sn_onnx_fail(c, "it has no end");
    *out = sn_ix_const(c->m, count > 0 ? (int64_t)count : 0);
    return SN_OK;
}

/* How many elements start, start + delta, ... are before limit. Integers may be sizes. */
static sn_status range_count(sn_ix *out, sn_onnx_call *c) {
    sn_ix ends[2][SN_KNOWN_MAX];
    uint32_t n;
    int64_t delta;
    if (sn_is_float(sn_graph_type(c->m, sn_onnx_in(c, 0))->dtype)) return float_range_count(out, c);
    SN_TRY(sn_onnx_int(&delta, c, 2));
    for (uint32_t k = 0; k < 2; k++) {
        SN_TRY(sn_onnx_sizes(ends[k], &n, c, k));
        if (n != 1) return sn_onnx_fail(c, "operand %u is no number", k + 1);
    }
    if (delta == 0 || delta == INT64_MIN) return sn_onnx_fail(c, "it has no end");
    sn_ix span = sn_ix_scale(c->m, sn_ix_sub(c->m, ends[1][0], ends[0][0]), delta < 0 ? -1 : 1);
    sn_ix count = sn_ix_ceildiv(c->m, span, sn_ix_const(c->m, delta < 0 ? -delta : delta));
    *out = sn_ix_max(c->m, count, sn_ix_const(c->m, 0));
    return SN_OK;
}

sn_status sn_onnx_range(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd start = sn_onnx_in(c, 0), delta = sn_onnx_in(c, 2);
    sn_ix n;
    SN_TRY(range_count(&n, c));
    sn_nd steps = sn_graph_binary(m, SN_OP_MUL, sn_graph_iota(m, sn_graph_type(m, start)->dtype, 0, &n, 1), delta);
    return sn_onnx_done(c, sn_graph_binary(m, SN_OP_ADD, steps, start));
}

/* The triangle of the last two axes on one side of a diagonal, zeros elsewhere: column - row >= k above. */
sn_status sn_onnx_trilu(sn_onnx_call *c) {
    sn_module *m = c->m;
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(m, x);
    bool upper = sn_onnx_attr_int(c, "upper", 1);
    if (t->rank < 2) return sn_onnx_fail(c, "an operand of rank %u; at least 2 is wanted", t->rank);
    const sn_ix *last = t->shape + t->rank - 2;
    sn_nd k = sn_onnx_has(c, 1) ? sn_graph_reshape(m, sn_onnx_in(c, 1), NULL, 0) : sn_graph_scalar(m, SN_I64, 0);
    sn_nd row = sn_graph_iota(m, SN_I64, 0, last, 2), column = sn_graph_iota(m, SN_I64, 1, last, 2);
    sn_nd keep = sn_graph_binary(m, upper ? SN_OP_GE : SN_OP_LE, sn_graph_binary(m, SN_OP_SUB, column, row), k);
    return sn_onnx_done(c, sn_graph_where(m, keep, x, sn_graph_number(m, x, 0)));
}
