/* ops_shape.c: operators that make, tell or change shapes.
 */
#include "frontend/onnx/import.h"

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
    return sn_onnx_done(c, t ? sn_onnx_constant(c, t) : numbers(c));
}

/* The product of sizes of x but those in the mask that stand for a given size: what -1 becomes. */
static sn_status infer_size(sn_ix *shape, uint32_t n, uint32_t open, sn_onnx_call *c, sn_nd x) {
    sn_ix all = sn_type_numel(c->m, sn_graph_type(c->m, x)), rest = sn_ix_const(c->m, 1);
    for (uint32_t k = 0; k < n; k++)
        if (k != open) rest = sn_ix_mul(c->m, rest, shape[k]);
    int64_t divisor;
    if (sn_ix_is_const(c->m, rest, &divisor) && divisor > 0) {
        shape[open] = sn_ix_divc(c->m, all, divisor);
        return SN_OK;
    }
    return sn_onnx_fail(c, "the size for -1 does not follow from sizes that are names");
}

/* Size 0 in the shape: that of x, unless allowzero says that it is 0; -1: what is left. */
sn_status sn_onnx_reshape(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    sn_ix shape[SN_KNOWN_MAX];
    uint32_t n, open = UINT32_MAX;
    bool allow_zero = sn_onnx_attr_int(c, "allowzero", 0);
    SN_TRY(sn_onnx_sizes(shape, &n, c, 1));
    const sn_type *t = sn_graph_type(c->m, x);
    if (n > SN_MAX_RANK) return sn_onnx_fail(c, "rank %u; at most %d axes", n, SN_MAX_RANK);
    for (uint32_t k = 0; k < n; k++) {
        int64_t size;
        if (!sn_ix_is_const(c->m, shape[k], &size)) continue;
        if (size == 0 && !allow_zero && k < t->rank) shape[k] = t->shape[k];
        if (size == -1) open = k;
    }
    if (open != UINT32_MAX) SN_TRY(infer_size(shape, n, open, c, x));
    return sn_onnx_done(c, x.i ? sn_graph_reshape(c->m, x, shape, n) : x);
}

static int64_t clamped(int64_t at, int64_t rank) {
    if (at < 0) at += rank;
    return at < 0 ? 0 : at > rank ? rank : at;
}

sn_status sn_onnx_shape_of(sn_onnx_call *c) {
    sn_nd x = sn_onnx_in(c, 0);
    const sn_type *t = sn_graph_type(c->m, x);
    int64_t start = clamped(sn_onnx_attr_int(c, "start", 0), t->rank);
    int64_t end = clamped(sn_onnx_attr_int(c, "end", t->rank), t->rank);
    return sn_onnx_done(c, sn_graph_sizes(c->m, t->shape + start, end > start ? (uint32_t)(end - start) : 0));
}

sn_status sn_onnx_concat(sn_onnx_call *c) {
    sn_nd *in = SN_NEWN(c->arena, sn_nd, c->n_in + 1);
    for (uint32_t k = 0; k < c->n_in; k++) in[k] = sn_onnx_in(c, k);
    return sn_onnx_done(c, sn_graph_concat(c->m, in, c->n_in, sn_onnx_attr_int(c, "axis", 1)));
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
